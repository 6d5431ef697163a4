"""Consumer: records by iteration, in a `for` or in an `async for`.

This file decides which offsets count as processed. Records come from librdkafka in batches:
`_pending` are those not returned yet, `_current` is the one that the caller works on, and `_done`
is the next offset by partition, behind all records that were returned before. Asking for the next
record marks the last one as done.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self

import confluent_kafka

from ottla.client.dead_letters import OnUndecodable, handler_of
from ottla.client.delivery import CONSUMER, Delivery, Setting, delivery_of
from ottla.client.kafka_errors import interrupted, kafka_error_of
from ottla.client.record import ConsumerRecord, K, TopicPartition, V
from ottla.client.record_reader import RecordDeserializationError, is_trouble, record_reader
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import FromBytes
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, librdkafka_settings
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.2  # the longest time until Ctrl-C is noticed
BATCH_RECORDS_MAX: Final = 500

log = logging.getLogger("ottla.client")


class RebalanceListener(Protocol):
    """Called when partitions come and go, from within the call that asks for the next record."""

    def on_assigned(self, partitions: list[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """The last chance to finish work: what is done is committed right after this call."""

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may own these partitions already: commit nothing."""


class Consumer(Generic[K, V]):
    """Reads records of topics.

        with Consumer("localhost:9092", "greetings", group="readers", value=str) as consumer:
            for record in consumer:
                print(record.value)

    Without a group nothing is committed. `deserialization_exception_handler` decides about a record
    that can't be read: 'fail', 'continue', or a function (ottla.client.dead_letters). `delivery` is
    one of ottla.client.delivery's words; `settings` are Kafka's consumer settings and win over what
    that word sets.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: str | Iterable[str] | re.Pattern[str] | None = None,
        *,
        group: str | None = None,
        key: FromBytes[K] = BYTES,  # type: ignore[assignment]
        value: FromBytes[V] = BYTES,  # type: ignore[assignment]
        delivery: str = Delivery.AT_LEAST_ONCE,
        auto_offset_reset: str = "latest",
        deserialization_exception_handler: str | OnUndecodable = "fail",
        listener: RebalanceListener | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.delivery = delivery_of(delivery)
        self._read = record_reader(key, value, settings or {})
        self._on_undecodable = handler_of(deserialization_exception_handler)
        self._commits = group is not None
        self._errors = ConnectionErrors(settings or {})
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "group.id": group or f"ottla-{uuid.uuid4()}",
            "auto.offset.reset": auto_offset_reset,
            **CONSUMER[self.delivery],
            **librdkafka_settings(settings or {}),
            "error_cb": self._errors.on_error,
        }
        if group is None:
            config["enable.auto.commit"] = False
        self.raw: confluent_kafka.Consumer = client_with(confluent_kafka.Consumer, config)
        self._pending: deque[confluent_kafka.Message] = deque()
        self._current: confluent_kafka.Message | None = None
        self._done: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # first offset taken since the last transaction
        self._revocations = 0
        self._partitions_lost = False  # a rebalance took some from the open transaction
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False
        if topics is not None:
            self.subscribe(topics, listener=listener)

    # Which partitions

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        *,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, or to all, also later ones, whose names match a pattern."""
        if isinstance(topics, re.Pattern):
            names = [posix_pattern(topics.pattern)]
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
        callbacks = _RebalanceCallbacks(self, listener)
        self._forget()
        self.raw.subscribe(
            names, on_assign=callbacks.assigned, on_revoke=callbacks.revoked, on_lost=callbacks.lost
        )

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read these partitions without group membership; a mapping gives the first offsets."""
        starts = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        self._forget()
        self.raw.assign(
            [
                confluent_kafka.TopicPartition(
                    partition.topic,
                    partition.partition,
                    confluent_kafka.OFFSET_INVALID if start is None else start,
                )
                for partition, start in starts.items()
            ]
        )

    @property
    def assignment(self) -> list[TopicPartition]:
        return [
            TopicPartition(partition.topic, partition.partition)
            for partition in self.raw.assignment()
        ]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.raw.pause(_plain(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.raw.resume(_plain(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset`; records of this partition that were fetched ahead are dropped."""
        remaining = [message for message in self._pending if _partition_of(message) != partition]
        self._pending = deque(remaining)
        self._done.pop(partition, None)
        if self._current is not None and _partition_of(self._current) == partition:
            self._current = None
        _call(self.raw.seek, confluent_kafka.TopicPartition(*partition, offset))

    # Records

    @property
    def has_more(self) -> bool:
        """True if a record can be returned without waiting."""
        return bool(self._pending)

    def poll(self, timeout_s: float = 0.0) -> ConsumerRecord[K, V] | None:
        """The next record, or None if none comes within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._mark_done()
        while True:
            while not self._pending:
                left = deadline - time.monotonic()
                if not self._fill(max(0.0, min(POLL_S, left))) and left <= 0:
                    return None
            record = self._hand_out()
            if record is not None:
                return record

    def take(self, count: int, timeout_s: float = 30.0) -> list[ConsumerRecord[K, V]]:
        """The next `count` records; fewer if `timeout_s` ends before they come."""
        deadline = time.monotonic() + timeout_s
        taken: list[ConsumerRecord[K, V]] = []
        while len(taken) < count:
            record = self.poll(max(0.0, deadline - time.monotonic()))
            if record is None:
                break
            taken.append(record)
        return taken

    def batches(self, timeout_s: float | None = None) -> Iterator[list[ConsumerRecord[K, V]]]:
        """Lists of records, as they come; ends if none comes within `timeout_s`."""
        while (first := self._next(timeout_s)) is not None:
            batch = [first]
            while self._pending:
                self._mark_done()
                record = self._hand_out()
                if record is not None:
                    batch.append(record)
            yield batch

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        while (record := self._next(None)) is not None:
            yield record

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        loop = asyncio.get_running_loop()
        while not self._closed:
            self._mark_done()
            while not self._pending:  # only waiting for the broker needs the other thread
                await loop.run_in_executor(self._executor, self._fill, POLL_S)
            record = self._hand_out()
            if record is not None:
                yield record

    def _next(self, timeout_s: float | None) -> ConsumerRecord[K, V] | None:
        record = None
        while record is None and not self._closed:
            record = self.poll(POLL_S if timeout_s is None else timeout_s)
            if timeout_s is not None:
                break
        return record

    def _fill(self, timeout_s: float) -> bool:
        """Fetch what there is: wait for one record, then take those that have arrived already."""
        if self.delivery is Delivery.AT_LEAST_ONCE:
            self._store()
        revocations = self._revocations
        try:
            first = self.raw.poll(timeout_s)
            self._errors.check()
            if first is None:
                return False
            messages = [first, *self.raw.consume(BATCH_RECORDS_MAX - 1, 0)]
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None
        except SystemError as error:
            raise interrupted(error) from None
        records = [message for message in messages if not is_trouble(message)]
        if revocations != self._revocations and self.delivery is Delivery.EXACTLY_ONCE:
            self._put_back(records)  # some partitions may have been revoked, or assigned again
            return False
        if records and self.delivery is Delivery.AT_MOST_ONCE:
            self._commit_before(records)
        for record in records:
            self._since.setdefault(_partition_of(record), record.offset() or 0)
        self._pending.extend(records)
        return True

    def _hand_out(self) -> ConsumerRecord[K, V] | None:
        """None: the record can't be read, and the handler skips it."""
        self._current = message = self._pending.popleft()
        try:
            return self._read(message)
        except RecordDeserializationError as error:
            if self._on_undecodable is None:
                raise
            self._on_undecodable(error)
            self._mark_done()
            return None
        except Exception:  # not the record's fault: return it again once it can be read
            self._pending.appendleft(message)
            self._current = None
            raise

    # Offsets

    def commit(self) -> None:
        """Commit what is done, and wait for the answer."""
        self._mark_done()
        if not self._commits:
            return
        if self.delivery is Delivery.AT_LEAST_ONCE:
            self._store()
            self._commit_stored()
        elif self._done:
            _call(self.raw.commit, offsets=_with_offsets(self._done), asynchronous=False)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next record to return; None before the first."""
        current = self._current
        if current is not None and _partition_of(current) == partition:
            return (current.offset() or 0) + 1
        return self._done.get(partition)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int | None]:
        found = _call(self.raw.committed, _plain(partitions), timeout_s)
        return {
            TopicPartition(partition.topic, partition.partition): partition.offset
            if partition.offset >= 0
            else None
            for partition in found
        }

    def processed_offsets(self) -> tuple[list[confluent_kafka.TopicPartition], Any]:
        """For a transaction: the offsets to commit in it, and the group's metadata.

        KafkaError if partitions were revoked since it began: their next owner starts where the
        last transaction ended, so this one must not commit what it did with their records.
        """
        if self._partitions_lost:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                "the group was rebalanced during the transaction, which is aborted",
            )
        self._mark_done()
        return _with_offsets(self._done), self.raw.consumer_group_metadata()

    def on_commit(self) -> None:
        """The transaction was committed."""
        self._done.clear()
        self._since.clear()
        for message in self._pending:
            self._since.setdefault(_partition_of(message), message.offset() or 0)

    def on_abort(self) -> None:
        """The transaction was aborted: return all records again that came since the last one."""
        starts = dict(self._since)
        self._forget()
        self._seek(starts)

    def _put_back(self, messages: list[confluent_kafka.Message]) -> None:
        starts: dict[TopicPartition, int] = {}
        for message in messages:
            starts.setdefault(_partition_of(message), message.offset() or 0)
        self._seek(starts)

    def _seek(self, starts: Mapping[TopicPartition, int]) -> None:
        assigned = set(self.assignment)
        for partition, offset in starts.items():
            if partition in assigned:
                _call(self.raw.seek, confluent_kafka.TopicPartition(*partition, offset))

    def _taken_away(self) -> None:
        self._revocations += 1
        if self._since and self.delivery is Delivery.EXACTLY_ONCE:
            self._partitions_lost = True

    def _mark_done(self) -> None:
        """The record that was returned last is done."""
        current, self._current = self._current, None
        if current is not None:
            self._done[_partition_of(current)] = (current.offset() or 0) + 1

    def _store(self) -> None:
        """Store offsets; librdkafka commits them in the background, at rebalances, at close."""
        done = self._done
        if not done or not self._commits:
            return
        try:
            self.raw.store_offsets(offsets=_with_offsets(done))
        except confluent_kafka.KafkaException as error:
            log.debug("Offsets of revoked partitions not stored: %s", kafka_error_of(error))
        done.clear()

    def _commit_stored(self) -> None:
        try:
            self.raw.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:  # nothing to commit
                raise kafka_error_of(error) from None

    def _commit_before(self, messages: list[confluent_kafka.Message]) -> None:
        if self._commits:
            ends = {_partition_of(message): (message.offset() or 0) + 1 for message in messages}
            _call(self.raw.commit, offsets=_with_offsets(ends), asynchronous=False)

    def _forget(self) -> None:
        self._pending.clear()
        self._current = None
        self._done.clear()
        self._since.clear()
        self._partitions_lost = False

    # The end

    def close(self, *, done: bool = True) -> None:
        """Leave the group. The last record counts as done, unless `done` is False."""
        if self._closed:
            return
        self._closed = True
        if done:
            self._mark_done()
        if self.delivery is Delivery.AT_LEAST_ONCE:
            self._store()
        if self._thread is not None:
            self._thread.shutdown()
        self.raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(done=kind is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close, done=kind is None)

    @property
    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="ottla-consumer")
        return self._thread


class _RebalanceCallbacks:
    """Translates librdkafka's rebalance callbacks into those of a RebalanceListener."""

    def __init__(self, consumer: Consumer[Any, Any], listener: RebalanceListener | None) -> None:
        self._consumer = consumer
        self._listener = listener

    def assigned(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.on_assigned(_topic_partitions(partitions))

    def revoked(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._consumer._taken_away()
        if self._listener is not None:
            self._listener.on_revoked(_topic_partitions(partitions))

    def lost(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        for partition in _topic_partitions(partitions):
            self._consumer._done.pop(partition, None)
        self._consumer._taken_away()
        if self._listener is not None:
            self._listener.on_lost(_topic_partitions(partitions))


def posix_pattern(pattern: str) -> str:
    """A regular expression in librdkafka's form: POSIX, marked by a leading `^`."""
    inner = pattern.removeprefix("^").removesuffix("$")
    return f"^({inner.replace('(?:', '(').replace(chr(92) + 'd', '[0-9]')})$"


def _partition_of(message: confluent_kafka.Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


def _topic_partitions(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]


def _plain(partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*partition) for partition in partitions]


def _with_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    return [
        confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()
    ]


def _call(what: Callable[..., Any], *arguments: object, **named: object) -> Any:
    try:
        return what(*arguments, **named)
    except confluent_kafka.KafkaException as error:
        raise kafka_error_of(error) from None
