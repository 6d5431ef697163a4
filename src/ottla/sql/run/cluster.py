"""The topics of a plan: made when its query starts, deleted with it."""

from __future__ import annotations

import logging

from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import KafkaError
from ottla.queries import cluster
from ottla.queries.application_topics import internal_topics
from ottla.sql.plan.stages import Plan, Topic, application_id, internal_topic

log = logging.getLogger("ottla.sql")


class Cluster(cluster.Cluster):
    """The cluster that queries read from and write to. `processing_log` is a topic."""

    processing_log = ""

    def read_options(self) -> dict[str, str]:
        """Options of the source for topics with a layout."""
        if not self.processing_log:
            return self.options()
        return {**self.options(), "ottla.processing.log": self.processing_log}

    def make_topics(self, query_id: str, plan: Plan, service_id: str) -> None:
        """The sink's topic and the internal ones, as far as they are not there."""
        wanted = [plan.topic] if plan.topic else []
        if not plan.needs_tasks:
            wanted += plan.internal_topics
        if not wanted:
            return
        with self.admin() as admin:
            model = cluster.described(admin, plan.stages[0].inputs[0].topic)
            wishes = [_wish(each, model, query_id, service_id) for each in wanted]
            cluster.make_topics(admin, wishes, f"query {query_id}")

    def delete_internal_topics(self, query_id: str, service_id: str) -> None:
        try:
            with self.admin() as admin:
                names = internal_topics(application_id(query_id, service_id), admin.topics.names())
        except KafkaError as error:
            log.warning("internal topics of query %s could not be deleted: %s", query_id, error)
            return
        cluster.delete_topics(self, names)


def _wish(topic: Topic, model: TopicDescription, query_id: str, service_id: str) -> NewTopic:
    name = internal_topic(query_id, topic.name, service_id) if topic.internal else topic.name
    return NewTopic(
        name,
        topic.partitions or len(model.partitions),
        topic.replicas or len(model.partitions[0].replicas),
        configs=dict(topic.config),
    )
