"""The topics of queries: created when a query starts; internal ones are deleted with it."""

from __future__ import annotations

import logging

from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import KafkaError
from ottla.queries import cluster
from ottla.queries.application_topics import internal_topics
from ottla.sql.plan.stages import QueryPlan, QueryTopicSpec, application_id, internal_topic

log = logging.getLogger("ottla.sql")


class QueryTopics(cluster.KafkaCluster):
    """The topics that queries read and write. `processing_log` is a topic."""

    processing_log = ""

    def read_options(self) -> dict[str, str]:
        """Options of the source for topics with a layout."""
        if not self.processing_log:
            return self.options()
        return {**self.options(), "ottla.processing.log": self.processing_log}

    def make_topics(self, query_id: str, plan: QueryPlan, service_id: str) -> None:
        """Create the topic of the sink and the internal topics, unless they exist."""
        wanted = [plan.topic] if plan.topic else []
        if not plan.needs_tasks:
            wanted += plan.internal_topics
        if not wanted:
            return
        with self.admin() as admin:
            model = cluster.described(admin, plan.stages[0].inputs[0].topic)
            wishes = [_wish(topic, model, query_id, service_id) for topic in wanted]
            cluster.make_topics(admin, wishes, f"query {query_id}")

    def delete_internal_topics(self, query_id: str, service_id: str) -> None:
        try:
            with self.admin() as admin:
                names = internal_topics(application_id(query_id, service_id), admin.topics.names())
        except KafkaError as error:
            log.warning("Failed to delete internal topics of query %s: %s", query_id, error)
            return
        cluster.delete_topics(self, names)


def _wish(
    topic: QueryTopicSpec, model: TopicDescription, query_id: str, service_id: str
) -> NewTopic:
    name = internal_topic(query_id, topic.name, service_id) if topic.internal else topic.name
    return NewTopic(
        name,
        topic.partitions or len(model.partitions),
        topic.replicas or len(model.partitions[0].replicas),
        configs=dict(topic.config),
    )
