"""What runners ask of the broker: topics, and where they begin and end."""

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

log = logging.getLogger("ottla.spark")


class Cluster:
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
        """As source and sink are told."""
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
        """Where a topic begins, or ends, now."""
        with self.admin() as admin:
            partitions = [
                TopicPartition(topic, each.partition) for each in described(admin, topic).partitions
            ]
            found = admin.offsets.find(partitions, EARLIEST if earliest else LATEST)
        offsets: dict[str, int] = {}
        for each in partitions:
            offset = found[each]
            if isinstance(offset, KafkaError):
                raise offset
            offsets[str(each.partition)] = offset.offset
        return {topic: offsets}


def described(admin: Admin, topic: str) -> TopicDescription:
    found = admin.topics.describe(topic)[topic]
    if isinstance(found, KafkaError):
        raise found
    return found


def make_topics(admin: Admin, wishes: Iterable[NewTopic], whose: str) -> None:
    """Those that are not there."""
    wanted = list(wishes)
    there = admin.topics.describe(*(each.name for each in wanted)) if wanted else {}
    new = [each for each in wanted if not isinstance(there.get(each.name), TopicDescription)]
    for name, error in admin.topics.create_all(new).items() if new else ():
        if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise error
        log.info("topic %s created for %s", name, whose)


def delete_topics(cluster: Cluster, names: list[str]) -> None:
    """Those that are there; what can't be deleted is told in the log."""
    if not names:
        return
    try:
        with cluster.admin() as admin:
            failures = admin.topics.delete(*names)
    except KafkaError as error:
        failures = dict.fromkeys(names, error)
    for name, failure in failures.items():
        if failure and failure.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            log.warning("internal topic %s could not be deleted: %s", name, failure)
