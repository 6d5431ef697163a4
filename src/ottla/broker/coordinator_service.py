"""Carries out what a coordinator decides: appends, then replies; loads its shards; keeps its timer.

A coordinator is a state machine without I/O (see `ottla.coordinator.runtime`). Here its results
meet the log of its topic, the event loop's timers, and the clients that wait for a response. The
services of groups, transactions and share states are each a `CoordinatorService`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ottla.broker.alarm import Alarm
from ottla.broker.commit_wait import is_committed, read_committed, when_committed
from ottla.broker.internal_topic import InternalTopic
from ottla.broker.promise import Promise
from ottla.clock import WatchedClock
from ottla.coordinator.result import CoordinatorResult, RecordBytes, Reply, coordinator_code
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BATCH_OVERHEAD, NO_PRODUCER_ID, AppendOrigin, build_batch
from ottla.records.record import Record
from ottla.replica.partition import Partition
from ottla.replica.partitions import Partitions

RECORD_OVERHEAD_MAX: Final = 32  # lengths and deltas around a record's key and value

log = logging.getLogger("ottla.broker")

C = TypeVar("C", bound=CoordinatorRuntime[Any])
R = TypeVar("R")


class CoordinatorService(ABC, Generic[C]):
    """One coordinator of this broker. Handlers call `coordinator`, and `carry_out` its results."""

    coordinator: C  # replaced when the topic is created again

    def __init__(
        self, topic: str, partitions: Partitions, *, partition_count: int, clock: WatchedClock
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._alarm = Alarm(clock, self._expire)
        clock.when_set(lambda step_ms: self.coordinator.clock_set(step_ms))
        self._topic = InternalTopic(topic, self, partitions, clock=clock)
        self.coordinator: C = self.new_coordinator(partition_count)

    # -- what differs from one coordinator to another

    @abstractmethod
    def new_coordinator(self, partition_count: int) -> C:
        """A coordinator without shards, for a topic with this many partitions."""

    @property
    @abstractmethod
    def load_buffer_size(self) -> int:
        """How many bytes of the topic are read and replayed at once."""

    @property
    @abstractmethod
    def codec(self) -> int:
        """The compression of records in the topic."""

    @property
    @abstractmethod
    def commit_timeout_ms(self) -> int:
        """How long a reply waits for the replicas before it becomes an error."""

    def decided(self, result: CoordinatorResult, now_ms: int) -> None:
        """The records of a result with markers are committed: have the markers written."""

    # -- shards, as InternalTopic loads and unloads them

    def stop(self) -> None:
        self._alarm.stop()
        self._topic.stop()

    def reset(self, partition_count: int) -> None:
        """The topic was created, perhaps after it was deleted: start with an empty coordinator."""
        self.coordinator = self.new_coordinator(partition_count)

    def finish_load(self, partition: int, now_ms: int) -> None:
        self.carry_out(self.coordinator.end_load(partition, now_ms), now_ms)

    def unload(self, partition: int) -> None:
        self._reply(self.coordinator.unload(partition))

    # -- results

    def carry_out(self, result: CoordinatorResult, now_ms: int) -> None:
        """Append the records and, once they are committed, send the replies.

        With one replica they are committed at once. An event whose append fails is undone here,
        before any other event can see what it has changed.
        """
        try:
            if result.records:
                self._append(result, now_ms)
        except KafkaError as error:
            where = f"{self._topic.name}-{result.partition}"
            log.warning("%s: append failed, its event is undone: %s", where, error)
            self._reply(self.coordinator.failed(result, error.code, now_ms=now_ms))
        else:
            self._await_commit(result, now_ms)
        shard = self.coordinator.shards.get(result.partition)
        if shard is not None:
            self._alarm.set(shard.next_deadline_ms(), now_ms)

    def _append(self, result: CoordinatorResult, now_ms: int) -> None:
        partition = self._partitions.leading(self._topic.name, result.partition)
        base_offset = append_records(
            partition, result.records, now_ms, codec=self.codec, producer=result.producer
        )
        self.coordinator.shards[result.partition].appended(result.records, base_offset)

    def _await_commit(self, result: CoordinatorResult, now_ms: int) -> None:
        """A result without records waits as well, because its replies may rest on records of
        earlier results that are not committed yet."""
        partition = self._partitions.of_topic(self._topic.name).get(result.partition)
        if partition is None or is_committed(partition):
            self._reply(result.replies)
            self.decided(result, now_ms)
            return
        if result.replies:
            reply = partial(self._reply_committed, result.replies)
            when_committed(partition, reply, timeout_ms=self.commit_timeout_ms)
        if result.markers:  # they wait without a timeout: the decision stands once it is committed
            when_committed(partition, partial(self._decide, result))

    def _reply_committed(self, replies: list[Reply], code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            replies = self.coordinator.shard_class.error_replies(replies, code)
        self._reply(replies)

    def _decide(self, result: CoordinatorResult, code: ErrorCode) -> None:
        """If another broker leads by now, it loads the decision from the log and carries it
        out."""
        if code is ErrorCode.NONE:
            self.decided(result, self._clock.now_ms())

    def _reply(self, replies: Iterable[Reply]) -> None:
        """If a reply cannot be sent, which is a bug, other replies and markers still are."""
        for promise, response in replies:
            assert isinstance(promise, Promise)
            try:
                promise.resolve(response)
            except Exception:
                name = type(response).__name__
                log.exception("%s: the reply %s was not sent", self._topic.name, name)

    def read_committed(self, response: R, keys: Iterable[str]) -> R | Awaitable[R]:
        """The response, once everything that was read about these keys is committed."""
        coordinator = self.coordinator
        held = self._partitions.of_topic(self._topic.name)
        indexes = {coordinator.partition_of(key) for key in keys}

        def refuse(response: R, code: ErrorCode) -> R:
            refused: R = coordinator.shard_class.error_reply(response, coordinator_code(code))
            return refused

        return read_committed(
            response,
            [held.get(index) for index in indexes if index in coordinator.shards],
            refuse,
            timeout_ms=self.commit_timeout_ms,
        )

    # -- time

    def _expire(self, now_ms: int) -> int | None:
        for result in self.coordinator.expire(now_ms):
            self.carry_out(result, now_ms)
        return self.coordinator.next_deadline_ms()


def append_records(
    partition: Partition,
    records: list[RecordBytes],
    now_ms: int,
    *,
    codec: int,
    producer: tuple[int, int] | None = None,
) -> int:
    """Append a coordinator's records as one batch; with a `producer`, in its transaction.

    As for a Produce with acks=all, nothing is appended if too few replicas are in sync. Returns the
    offset of the first record.
    """
    partition.check_min_isr()
    base_offset = partition.log.end_offset
    producer_id, producer_epoch = producer or (NO_PRODUCER_ID, -1)
    for batch in _batches(records, partition.log.config.max_message_bytes):
        data = build_batch(
            [Record(timestamp=now_ms, key=key, value=value) for key, value in batch],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # as in Kafka: sequences of a coordinator are not checked
            transactional=producer is not None,
        )
        partition.append(memoryview(bytearray(data)), now_ms, origin=AppendOrigin.COORDINATOR)
    return base_offset


def _batches(records: list[RecordBytes], size_max: int) -> Iterator[list[RecordBytes]]:
    """Nearly always one batch. Only a great many tombstones do not fit into it."""
    batch: list[RecordBytes] = []
    size = BATCH_OVERHEAD
    for record in records:
        record_size = len(record[0]) + len(record[1] or b"") + RECORD_OVERHEAD_MAX
        if batch and size + record_size > size_max:
            yield batch
            batch, size = [], BATCH_OVERHEAD
        batch.append(record)
        size += record_size
    yield batch
