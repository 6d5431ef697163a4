"""Topics in memory, and a TopicClient of them for the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.engine.records import Headers
from ottla.rows.java.murmur2 import partition_of
from ottla.sql.definitions import SourceTopicSpec
from ottla.sql.engine.topic_client import TopicClient, TopicProperties


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A record of a topic, as bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


@dataclass(slots=True)
class MemoryTopic:
    name: str
    partitions: int
    records: list[MemoryRecord] = field(default_factory=list)
    """A topic; records of all partitions are in order of arrival."""
    ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends = [0] * self.partitions

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
        partition: int | None = None,
    ) -> MemoryRecord:
        """Append a record. Without `partition` its key decides; without a key it goes to partition
        0."""
        if partition is None:
            partition = 0 if key is None else partition_of(key, self.partitions)
        offset = self.ends[partition]
        self.ends[partition] += 1
        record = MemoryRecord(self.name, partition, offset, key, value, timestamp, headers)
        self.records.append(record)
        return record


class MemoryTopicClient(TopicClient):
    def __init__(self) -> None:
        super().__init__("memory:0")
        self.topics: dict[str, MemoryTopic] = {}

    def topic(self, name: str, partitions: int = 1) -> MemoryTopic:
        """The topic of this name, which is created if it does not exist."""
        if name not in self.topics:
            self.topics[name] = MemoryTopic(name, partitions)
        return self.topics[name]

    def partition_count(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions

    def describe(self, names: Iterable[str] | None = None) -> dict[str, TopicProperties]:
        wanted = self.topics if names is None else names
        return {
            name: TopicProperties(name, (1,) * self.topics[name].partitions)
            for name in sorted(wanted)
            if name in self.topics
        }

    def make(self, spec: SourceTopicSpec) -> None:
        self.topic(spec.name, spec.partitions)

    def delete(self, topic: str) -> None:
        self.topics.pop(topic, None)

    def id(self) -> str:
        return "memory"

    def reachable(self) -> bool:
        return True

    def readers(self) -> dict[str, tuple[int, int]]:
        return {}

    def close(self) -> None:
        """Nothing to close."""
