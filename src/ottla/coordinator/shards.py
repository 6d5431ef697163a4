"""The shards of a coordinator: which one a name belongs to, and whether it is here.

A shard is one partition of the coordinator's topic. It is here from when this broker leads that
partition and has read it. Before, clients are told COORDINATOR_LOAD_IN_PROGRESS; without it,
NOT_COORDINATOR, upon which they look for the right broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from ottla.coordinator.keys import partition_for
from ottla.errors import ErrorCode, KafkaError


class Shard(Protocol):
    """One partition's share of what is coordinated."""

    @property
    def partition(self) -> int: ...

    def next_deadline_ms(self) -> int | None: ...

    def clock_set(self, step_ms: int) -> None: ...


S = TypeVar("S", bound=Shard)


class Shards(Generic[S]):
    """`partition_count` is that of the coordinator's topic, and can never change."""

    __slots__ = ("_loading", "partition_count", "shards")

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.shards: dict[int, S] = {}
        self._loading: dict[int, S] = {}

    def all_shards(self) -> Iterator[S]:
        """Those that are here, and those that are being loaded."""
        yield from self.shards.values()
        yield from self._loading.values()

    def add_loading(self, shard: S) -> S:
        """This broker leads the shard's partition, and begins to read it."""
        assert shard.partition not in self.shards
        self._loading[shard.partition] = shard
        return shard

    def add_loaded(self, partition: int) -> S:
        """That was all of it: the shard is here."""
        shard = self.shards[partition] = self._loading.pop(partition)
        return shard

    def remove(self, partition: int) -> S | None:
        """Another broker leads the partition, or its log cannot be read. The shard if it was here.

        One that was being loaded is just forgotten.
        """
        self._loading.pop(partition, None)
        return self.shards.pop(partition, None)

    def shard_of(self, name: str) -> S:
        partition = partition_for(name, self.partition_count)
        shard = self.shards.get(partition)
        if shard is not None:
            return shard
        if partition in self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    # -- time

    def clock_set(self, step_ms: int) -> None:
        """Somebody has set the clock, forward or back: deadlines move with it."""
        for shard in self.all_shards():
            shard.clock_set(step_ms)

    def next_deadline_ms(self) -> int | None:
        deadlines = (shard.next_deadline_ms() for shard in self.shards.values())
        return min((due_ms for due_ms in deadlines if due_ms is not None), default=None)

    def due(self, now_ms: int) -> Iterator[S]:
        """Shards of which some deadline is over."""
        for shard in self.shards.values():
            deadline_ms = shard.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= now_ms:
                yield shard
