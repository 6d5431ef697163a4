"""Topics in memory, and the cluster that they are to the SQL engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.engine.records import Headers
from ottla.rows.java.murmur2 import partition_of
from ottla.sql.definitions import TopicWish
from ottla.sql.engine.cluster import Cluster, TopicFacts


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
    """Of all partitions, in the order in which they came."""
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
        """By its key, unless a partition is given; without key it goes into the first one."""
        if partition is None:
            partition = 0 if key is None else partition_of(key, self.partitions)
        offset = self.ends[partition]
        self.ends[partition] += 1
        record = MemoryRecord(self.name, partition, offset, key, value, timestamp, headers)
        self.records.append(record)
        return record


class MemoryCluster(Cluster):
    def __init__(self) -> None:
        super().__init__("memory:0")
        self.topics: dict[str, MemoryTopic] = {}

    def topic(self, name: str, partitions: int = 1) -> MemoryTopic:
        """The topic of this name; it is made if there is none."""
        if name not in self.topics:
            self.topics[name] = MemoryTopic(name, partitions)
        return self.topics[name]

    def partition_count(self, topic: str) -> int | None:
        found = self.topics.get(topic)
        return None if found is None else found.partitions

    def describe(self, names: Iterable[str] | None = None) -> dict[str, TopicFacts]:
        wanted = self.topics if names is None else names
        return {
            name: TopicFacts(name, (1,) * self.topics[name].partitions)
            for name in sorted(wanted)
            if name in self.topics
        }

    def make(self, wish: TopicWish) -> None:
        self.topic(wish.name, wish.partitions)

    def delete(self, topic: str) -> None:
        self.topics.pop(topic, None)

    def id(self) -> str:
        return "memory"

    def reachable(self) -> bool:
        return True

    def readers(self) -> dict[str, tuple[int, int]]:
        return {}

    def close(self) -> None:
        """There is nothing to close."""
