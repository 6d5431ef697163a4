"""What all coordinators have in common: shards that are loaded, found by key, and unloaded.

A shard is one partition of the coordinator's topic. It is here while this broker leads that
partition and has read it. Until it is read, requests get COORDINATOR_LOAD_IN_PROGRESS; without it
they get NOT_COORDINATOR, upon which clients look for the right broker.

    begin_load -> shard.load(records)... -> end_load -> events -> unload

An event gives a CoordinatorResult. `ottla.broker.coordinator_service` carries it out: it appends
the records, and sends the replies when these are committed. If it could not append them it calls
`failed`, before any other event.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

from ottla.coordinator.latest_records import NO_PRODUCER_ID
from ottla.coordinator.records import partition_for
from ottla.coordinator.result import (
    CoordinatorEvent,
    CoordinatorResult,
    RecordBytes,
    Reply,
    coordinator_code,
)
from ottla.coordinator.timer import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

_log = logging.getLogger("ottla.coordinator")


class CoordinatorShard(ABC):
    """The state of one partition, for as long as this broker coordinates it."""

    __slots__ = ("partition", "timer")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.timer = CoordinatorTimer()

    # -- loading

    @abstractmethod
    def load(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """Load the next records of the partition, oldest first; a transaction's with its
        producer's id."""

    @abstractmethod
    def load_marker(self, producer_id: int, *, commit: bool) -> None:
        """Load the marker that ends this producer's transaction: it is next in the partition."""

    @abstractmethod
    def loaded(self, now_ms: int) -> CoordinatorResult:
        """All records are loaded. Sessions start now, because no heartbeat could arrive before."""

    @contextmanager
    def skipping_unreadable(self, topic: str) -> Iterator[None]:
        """Skip a record that cannot be read: the others must not be lost with it."""
        try:
            yield
        except KafkaError as error:
            _log.warning("%s-%d: skipping an unreadable record: %s", topic, self.partition, error)

    def unload(self) -> list[Reply]:
        """Another broker leads the partition. Returns the replies to requests that wait here."""
        return []

    # -- events

    def new_event(self, now_ms: int) -> CoordinatorEvent:
        return CoordinatorEvent(now_ms, partition=self.partition, timer=self.timer)

    def appended(self, records: list[RecordBytes], base_offset: int) -> None:  # noqa: B027
        """The records of the last event are in the log, from `base_offset` on."""

    def failed(self, result: CoordinatorResult, code: ErrorCode, *, now_ms: int) -> list[Reply]:
        """The append failed with `code`, and nothing is in the log: undo the event, last change
        first.

        Changes that the next coordinator would make anyway are not undone, such as the removal of
        members that have left or failed. Records that were appended but not committed in time are a
        different case: they may yet be committed, so the state stays and only the replies become
        errors.
        """
        event = self.new_event(now_ms)
        client_code = coordinator_code(code)
        for undo in reversed(result.undo):
            undo(event, client_code)
        assert not event.result.records, "undoing an event must not need another append"
        return [*self.error_replies(result.replies, code), *event.result.replies]

    @classmethod
    def error_replies(cls, replies: Iterable[Reply], append_code: ErrorCode) -> list[Reply]:
        code = coordinator_code(append_code)
        return [(token, cls.error_reply(response, code)) for token, response in replies]

    @staticmethod
    @abstractmethod
    def error_reply(response: Any, code: ErrorCode) -> Any:
        """The error that a client gets instead of `response` if its records are not stored."""

    # -- time

    def next_deadline_ms(self) -> int | None:
        """When `expire` has to be called next; an earlier or needless call does no harm."""
        return self.timer.next_ms()

    def clock_set(self, step_ms: int) -> None:
        self.timer.shift(step_ms)

    def expire(self, now_ms: int) -> CoordinatorResult:
        """Handle the timers that are due."""
        return CoordinatorResult(self.partition)


S = TypeVar("S", bound=CoordinatorShard)


class CoordinatorRuntime(ABC, Generic[S]):
    """`partition_count` is that of the coordinator's topic, and can never change."""

    __slots__ = ("_loading", "partition_count", "shards")

    shard_class: ClassVar[type[CoordinatorShard]]

    def __init__(self, partition_count: int) -> None:
        self.partition_count = partition_count
        self.shards: dict[int, S] = {}
        self._loading: dict[int, S] = {}

    @abstractmethod
    def new_shard(self, partition: int, leader_epoch: int) -> S:
        """An empty shard, which is about to be loaded."""

    # -- shards

    def all_shards(self) -> Iterator[S]:
        """Those that are loaded, and those that are being loaded."""
        yield from self.shards.values()
        yield from self._loading.values()

    def partition_of(self, key: str) -> int:
        """Partitions that were added to the topic later do not count: keys would move to others."""
        return partition_for(key, self.partition_count)

    def shard_of(self, key: str) -> S:
        partition = self.partition_of(key)
        shard = self.shards.get(partition)
        if shard is not None:
            return shard
        if partition in self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def begin_load(self, partition: int, leader_epoch: int) -> S:
        """This broker leads the partition: give the shard its records, then call `end_load`."""
        assert partition not in self.shards
        shard = self._loading[partition] = self.new_shard(partition, leader_epoch)
        return shard

    def loading_shard(self, partition: int) -> S:
        return self._loading[partition]

    def end_load(self, partition: int, now_ms: int) -> CoordinatorResult:
        shard = self.shards[partition] = self._loading.pop(partition)
        return shard.loaded(now_ms)

    def unload(self, partition: int) -> list[Reply]:
        """Another broker leads the partition, or its log cannot be read."""
        self._loading.pop(partition, None)
        shard = self.shards.pop(partition, None)
        return [] if shard is None else shard.unload()

    # -- results

    def failed(self, result: CoordinatorResult, code: ErrorCode, *, now_ms: int) -> list[Reply]:
        """See CoordinatorShard.failed."""
        return self.shards[result.partition].failed(result, code, now_ms=now_ms)

    # -- time

    def clock_set(self, step_ms: int) -> None:
        """The clock was set, forward or back: deadlines move with it."""
        for shard in self.all_shards():
            shard.clock_set(step_ms)

    def next_deadline_ms(self) -> int | None:
        deadlines = (shard.next_deadline_ms() for shard in self.shards.values())
        return min((due_ms for due_ms in deadlines if due_ms is not None), default=None)

    def expire(self, now_ms: int) -> list[CoordinatorResult]:
        """Handle all timers that are due; each result belongs to a different partition."""
        return [shard.expire(now_ms) for shard in self.shards.values() if _is_due(shard, now_ms)]


def _is_due(shard: CoordinatorShard, now_ms: int) -> bool:
    deadline_ms = shard.next_deadline_ms()
    return deadline_ms is not None and deadline_ms <= now_ms
