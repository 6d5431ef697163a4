"""The topics of a plan: made when its query starts, deleted with it."""

from __future__ import annotations

from ottla.client.topics import NewTopic, TopicDescription
from ottla.spark.running import cluster
from ottla.spark.sql.plan.stages import Plan, Topic, internal_topic


class Cluster(cluster.Cluster):
    """The cluster that queries read from and write to."""

    def make_topics(self, query_id: str, plan: Plan, service_id: str) -> None:
        """The sink's topic and the internal ones, as far as they are not there."""
        wanted = [*([plan.topic] if plan.topic else []), *plan.internal_topics]
        if not wanted:
            return
        with self.admin() as admin:
            model = cluster.described(admin, plan.stages[0].inputs[0].topic)
            wishes = [_wish(each, model, query_id, service_id) for each in wanted]
            cluster.make_topics(admin, wishes, f"query {query_id}")

    def delete_internal_topics(self, query_id: str, plan: Plan, service_id: str) -> None:
        names = [internal_topic(query_id, each.name, service_id) for each in plan.internal_topics]
        cluster.delete_topics(self, names)

    def delete_topics_of(self, query_id: str, service_id: str) -> None:
        """Its internal topics, where nobody knows its plan any more."""
        begins, ends = internal_topic(query_id, "*", service_id).split("*")
        with self.admin() as admin:
            names = [e for e in admin.topics.names() if e.startswith(begins) and e.endswith(ends)]
        cluster.delete_topics(self, names)


def _wish(topic: Topic, model: TopicDescription, query_id: str, service_id: str) -> NewTopic:
    name = internal_topic(query_id, topic.name, service_id) if topic.internal else topic.name
    return NewTopic(
        name,
        topic.partitions or len(model.partitions),
        topic.replicas or len(model.partitions[0].replicas),
        configs=dict(topic.config),
    )
