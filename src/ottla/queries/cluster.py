"""The Kafka cluster as queries see it: topics, and their first and last offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.client import Admin
from ottla.client.delivery import Setting
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.record import TopicPartition
from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.checkpoints import Position

log = logging.getLogger("ottla.queries")


class KafkaCluster:
    """The cluster that queries read from and write to."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Setting],
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.settings = dict(settings)
        self.registry = dict(registry or {})

    def options(self) -> dict[str, str]:
        """The options for Spark's source and sink."""
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            **{f"kafka.{name}": str(value) for name, value in self.settings.items()},
            **{f"ottla.registry.{name}": value for name, value in self.registry.items()},
        }

    def admin(self) -> Admin:
        return Admin(self.bootstrap_servers, settings=self.settings)

    def partitions(self, topic: str) -> int:
        with self.admin() as admin:
            return len(described(admin, topic).partitions)

    def position(self, topic: str, *, earliest: bool) -> Position:
        """The current first or end offsets of a topic."""
        with self.admin() as admin:
            partitions = [
                TopicPartition(topic, partition.partition)
                for partition in described(admin, topic).partitions
            ]
            found = admin.offsets.find(partitions, EARLIEST if earliest else LATEST)
        offsets: dict[str, int] = {}
        for partition in partitions:
            offset = found[partition]
            if isinstance(offset, KafkaError):
                raise offset
            offsets[str(partition.partition)] = offset.offset
        return {topic: offsets}


def described(admin: Admin, topic: str) -> TopicDescription:
    found = admin.topics.describe(topic)[topic]
    if isinstance(found, KafkaError):
        raise found
    return found


def make_topics(admin: Admin, topics: Iterable[NewTopic], whose: str) -> None:
    """Creates those that do not exist."""
    wanted = list(topics)
    there = admin.topics.describe(*(topic.name for topic in wanted)) if wanted else {}
    new = [topic for topic in wanted if not isinstance(there.get(topic.name), TopicDescription)]
    for name, error in admin.topics.create_all(new).items() if new else ():
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
        log.info("Created topic %s for %s", name, whose)


def delete_topics(cluster: KafkaCluster, names: list[str]) -> None:
    """Deletes those that exist; logs a warning for each that can't be deleted."""
    if not names:
        return
    try:
        with cluster.admin() as admin:
            failures = admin.topics.delete(*names)
    except KafkaError as error:
        failures = dict.fromkeys(names, error)
    for name, failure in failures.items():
        if failure and failure.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.warning("Failed to delete internal topic %s: %s", name, failure)
