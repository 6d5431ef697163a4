"""What the runner asks of the broker: topics, and where they begin and end."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.client import Admin
from ottla.client.delivery import Setting
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.record import TopicPartition
from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.sql.plan.stages import Plan, Topic, internal_topic
from ottla.spark.sql.run.checkpoints import Position

log = logging.getLogger("ottla.sql")


class Cluster:
    """The cluster that queries read from and write to."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Setting]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settings = dict(settings)

    def options(self) -> dict[str, str]:
        """As source and sink are told."""
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            **{f"kafka.{name}": str(value) for name, value in self.settings.items()},
        }

    def admin(self) -> Admin:
        return Admin(self.bootstrap_servers, settings=self.settings)

    def position(self, topic: str, *, earliest: bool) -> Position:
        """Where a topic begins, or ends, now."""
        with self.admin() as admin:
            described = _described(admin, topic)
            partitions = [TopicPartition(topic, each.partition) for each in described.partitions]
            found = admin.offsets.find(partitions, EARLIEST if earliest else LATEST)
        offsets: dict[str, int] = {}
        for each in partitions:
            offset = found[each]
            if isinstance(offset, KafkaError):
                raise offset
            offsets[str(each.partition)] = offset.offset
        return {topic: offsets}

    def make_topics(self, query_id: str, plan: Plan, service_id: str) -> None:
        """The sink's topic and the internal ones, as far as they are not there."""
        wanted = [*([plan.topic] if plan.topic else []), *plan.internal_topics]
        if not wanted:
            return
        with self.admin() as admin:
            model = _described(admin, plan.stages[0].inputs[0].topic)
            wishes = [_wish(each, model, query_id, service_id) for each in wanted]
            there = admin.topics.describe(*(each.name for each in wishes))
            new = [e for e in wishes if not isinstance(there.get(e.name), TopicDescription)]
            for name, error in admin.topics.create_all(new).items() if new else ():
                if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise error
                log.info("topic %s created for query %s", name, query_id)

    def delete_internal_topics(self, query_id: str, plan: Plan, service_id: str) -> None:
        names = [internal_topic(query_id, each.name, service_id) for each in plan.internal_topics]
        if not names:
            return
        try:
            with self.admin() as admin:
                failures = admin.topics.delete(*names)
        except KafkaError as error:
            failures = dict.fromkeys(names, error)
        for name, failure in failures.items():
            if failure and failure.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                log.warning("internal topic %s could not be deleted: %s", name, failure)


def _described(admin: Admin, topic: str) -> TopicDescription:
    found = admin.topics.describe(topic)[topic]
    if isinstance(found, KafkaError):
        raise found
    return found


def _wish(topic: Topic, model: TopicDescription, query_id: str, service_id: str) -> NewTopic:
    name = internal_topic(query_id, topic.name, service_id) if topic.internal else topic.name
    return NewTopic(
        name,
        topic.partitions or len(model.partitions),
        topic.replicas or len(model.partitions[0].replicas),
        configs=dict(topic.config),
    )
