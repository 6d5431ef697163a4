"""The topics of a case on a broker: made, filled, read and deleted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import confluent_kafka

from ottla.client import Admin, TopicPartition
from ottla.client.offsets import LATEST
from ottla.errors import KafkaError
from ottla.records.record import Record
from ottla.sql.testing.memory_topics import MemoryRecord
from suites.ksql.raw_producer import RawProducer

READ_S_MAX: Final = 60.0
POLL_S: Final = 0.5
KEPT: Final = ("__", "_schemas", "first-record")
"""The broker's and the registry's own topics."""


class CaseTopics:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = Admin(bootstrap)
        self._producer = RawProducer(bootstrap)

    def create(self, name: str, partitions: int = 1) -> None:
        """One that exists stays as it is."""
        if self.partitions(name) is None:
            self._admin.topics.create(name, partitions=partitions, replication_factor=1)

    def partitions(self, name: str) -> int | None:
        found = self._admin.topics.describe(name)[name]
        return None if isinstance(found, KafkaError) else len(found.partitions)

    def send(self, topic: str, records: Iterable[Record]) -> None:
        self.create(topic)
        self._producer.send(topic, self.partitions(topic) or 1, records)

    def ends(self) -> dict[TopicPartition, int]:
        """The end of each partition, by which new records are noticed."""
        names = self.names()
        if not names:
            return {}
        wanted = [
            TopicPartition(topic.name, partition.partition)
            for topic in self._admin.topics.describe(*names).values()
            if not isinstance(topic, KafkaError)
            for partition in topic.partitions
        ]
        found = self._admin.offsets.find(wanted, LATEST)
        return {place: at.offset for place, at in found.items() if not isinstance(at, KafkaError)}

    def names(self) -> list[str]:
        return [name for name in self._admin.topics.names() if not name.startswith(KEPT)]

    def delete_all(self) -> None:
        names = self.names()
        if names:
            self._admin.topics.delete(*names)

    def records(self, topic: str) -> list[list[MemoryRecord]]:
        """All committed records, by partition."""
        count = self.partitions(topic)
        if count is None:
            return []
        found: list[list[MemoryRecord]] = [[] for _ in range(count)]
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "ksqldb-cases",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(count)])
            left, deadline = set(range(count)), time.monotonic() + READ_S_MAX
            while left and time.monotonic() < deadline:
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                error: Any = message.error()
                if error is None:
                    found[message.partition() or 0].append(_record(message))
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
        finally:
            consumer.close()
        return found


def _record(message: Any) -> MemoryRecord:
    return MemoryRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )
