"""Consumer: records by iteration, in a `for` or in an `async for`.

Everything about which offsets count as worked on lives here. Records come from librdkafka in
batches; `_pending` are those not handed out yet, `_handed` is the one that the caller works on, and
`_done` is the offset to go on from, by partition, behind all that were handed out before. To ask
for the next record is to say that the last one is done.
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
from ottla.client.failures import failure_of, interrupted
from ottla.client.received import RecordDeserializationError, is_trouble, reader_of
from ottla.client.record import K, Record, TopicPartition, V
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import FromBytes
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, translate
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.2  # how soon Ctrl-C is heard
BATCH_RECORDS_MAX: Final = 500

log = logging.getLogger("ottla.client")


class RebalanceListener(Protocol):
    """Told when partitions come and go, from within the call that asked for the next record."""

    def on_assigned(self, partitions: list[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Last chance to finish what was begun: what is done is committed right after this."""

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may own them already: commit nothing."""


class Consumer(Generic[K, V]):
    """Reads records of topics.

        with Consumer("localhost:9092", "greetings", group="readers", value=str) as consumer:
            for record in consumer:
                print(record.value)

    Without a group nothing is committed. `deserialization_exception_handler` says what becomes of
    a record that can't be read: 'fail', 'continue', or a function (ottla.client.dead_letters).
    `delivery` is a word (see ottla.client.delivery);
    `settings` are Kafka's consumer settings and win over what the word sets.
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
        self._read = reader_of(key, value, settings or {})
        self._on_undecodable = handler_of(deserialization_exception_handler)
        self._commits = group is not None
        self._errors = ConnectionErrors(settings or {})
        wishes: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "group.id": group or f"ottla-{uuid.uuid4()}",
            "auto.offset.reset": auto_offset_reset,
            **CONSUMER[self.delivery],
            **translate(settings or {}),
            "error_cb": self._errors.tell,
        }
        if group is None:
            wishes["enable.auto.commit"] = False
        self.raw: confluent_kafka.Consumer = client_with(confluent_kafka.Consumer, wishes)
        self._pending: deque[confluent_kafka.Message] = deque()
        self._handed: confluent_kafka.Message | None = None
        self._done: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # first offset taken since the last transaction
        self._revocations = 0
        self._torn = False  # partitions went in the midst of a transaction with their records
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
        """To a topic, to several, or to all, also later ones, whose name a pattern matches."""
        if isinstance(topics, re.Pattern):
            names = [posix_pattern(topics.pattern)]
        else:
            names = [topics] if isinstance(topics, str) else list(topics)
        told = _Told(self, listener)
        self._forget()
        self.raw.subscribe(
            names, on_assign=told.assigned, on_revoke=told.revoked, on_lost=told.lost
        )

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, int]) -> None:
        """Read these partitions, without a group's help; a mapping gives the first offsets."""
        starts = partitions if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        self._forget()
        self.raw.assign(
            [
                confluent_kafka.TopicPartition(
                    each.topic,
                    each.partition,
                    confluent_kafka.OFFSET_INVALID if start is None else start,
                )
                for each, start in starts.items()
            ]
        )

    @property
    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition) for each in self.raw.assignment()]

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.raw.pause(_plain(partitions))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.raw.resume(_plain(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset`; what was fetched of this partition and not handed out is dropped."""
        kept = [each for each in self._pending if _partition_of(each) != partition]
        self._pending = deque(kept)
        self._done.pop(partition, None)
        if self._handed is not None and _partition_of(self._handed) == partition:
            self._handed = None
        _call(self.raw.seek, confluent_kafka.TopicPartition(*partition, offset))

    # Records

    @property
    def has_more(self) -> bool:
        """Is there a record that can be handed out without waiting?"""
        return bool(self._pending)

    def poll(self, timeout_s: float = 0.0) -> Record[K, V] | None:
        """The next record, or None if there is none in `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._settle()
        while True:
            while not self._pending:
                left = deadline - time.monotonic()
                if not self._fill(max(0.0, min(POLL_S, left))) and left <= 0:
                    return None
            record = self._hand_out()
            if record is not None:
                return record

    def take(self, count: int, timeout_s: float = 30.0) -> list[Record[K, V]]:
        """The next `count` records; fewer if `timeout_s` is over before they come."""
        deadline = time.monotonic() + timeout_s
        taken: list[Record[K, V]] = []
        while len(taken) < count:
            record = self.poll(max(0.0, deadline - time.monotonic()))
            if record is None:
                break
            taken.append(record)
        return taken

    def batches(self, timeout_s: float | None = None) -> Iterator[list[Record[K, V]]]:
        """Lists of records, as they come; ends if none comes in `timeout_s`."""
        while (first := self._next(timeout_s)) is not None:
            batch = [first]
            while self._pending:
                self._settle()
                record = self._hand_out()
                if record is not None:
                    batch.append(record)
            yield batch

    def __iter__(self) -> Iterator[Record[K, V]]:
        while (record := self._next(None)) is not None:
            yield record

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        loop = asyncio.get_running_loop()
        while not self._closed:
            self._settle()
            while not self._pending:  # only waiting for the broker needs the other thread
                await loop.run_in_executor(self._executor, self._fill, POLL_S)
            record = self._hand_out()
            if record is not None:
                yield record

    def _next(self, timeout_s: float | None) -> Record[K, V] | None:
        record = None
        while record is None and not self._closed:
            record = self.poll(POLL_S if timeout_s is None else timeout_s)
            if timeout_s is not None:
                break
        return record

    def _fill(self, timeout_s: float) -> bool:
        """Fetch what is there. One is awaited; others are taken only if they are here already."""
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
            raise failure_of(error) from None
        except SystemError as error:
            raise interrupted(error) from None
        records = [each for each in messages if not is_trouble(each)]
        if revocations != self._revocations and self.delivery is Delivery.EXACTLY_ONCE:
            self._put_back(records)  # some may be of partitions that went, or came anew
            return False
        if records and self.delivery is Delivery.AT_MOST_ONCE:
            self._commit_before(records)
        for each in records:
            self._since.setdefault(_partition_of(each), each.offset() or 0)
        self._pending.extend(records)
        return True

    def _hand_out(self) -> Record[K, V] | None:
        """None: the record can't be read, and is left out."""
        self._handed = message = self._pending.popleft()
        try:
            return self._read(message)
        except RecordDeserializationError as error:
            if self._on_undecodable is None:
                raise
            self._on_undecodable(error)
            self._settle()
            return None
        except Exception:  # not the record's fault: it is handed out when it can be read again
            self._pending.appendleft(message)
            self._handed = None
            raise

    # Offsets

    def commit(self) -> None:
        """Commit now what is done, and wait for it."""
        self._settle()
        if not self._commits:
            return
        if self.delivery is Delivery.AT_LEAST_ONCE:
            self._store()
            self._commit_stored()
        elif self._done:
            _call(self.raw.commit, offsets=_with_offsets(self._done), asynchronous=False)

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the record that would be handed out next; None if none was yet."""
        handed = self._handed
        if handed is not None and _partition_of(handed) == partition:
            return (handed.offset() or 0) + 1
        return self._done.get(partition)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float = 30.0
    ) -> dict[TopicPartition, int | None]:
        found = _call(self.raw.committed, _plain(partitions), timeout_s)
        return {
            TopicPartition(each.topic, each.partition): each.offset if each.offset >= 0 else None
            for each in found
        }

    def worked_off(self) -> tuple[list[confluent_kafka.TopicPartition], Any]:
        """For a transaction: the offsets to commit in it, and who we are in the group.

        KafkaError if partitions were taken away since it began: their next owner begins where the
        last transaction ended, so what this one did with their records must not be committed.
        """
        if self._torn:
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                "the group was rebalanced in the midst of the transaction, which is aborted",
            )
        self._settle()
        return _with_offsets(self._done), self.raw.consumer_group_metadata()

    def go_on(self) -> None:
        """A transaction was committed."""
        self._done.clear()
        self._since.clear()
        for each in self._pending:
            self._since.setdefault(_partition_of(each), each.offset() or 0)

    def go_back(self) -> None:
        """A transaction was aborted: hand out again all that was handed out since the last one."""
        starts = dict(self._since)
        self._forget()
        self._seek(starts)

    def _put_back(self, messages: list[confluent_kafka.Message]) -> None:
        starts: dict[TopicPartition, int] = {}
        for each in messages:
            starts.setdefault(_partition_of(each), each.offset() or 0)
        self._seek(starts)

    def _seek(self, starts: Mapping[TopicPartition, int]) -> None:
        ours = set(self.assignment)
        for partition, offset in starts.items():
            if partition in ours:
                _call(self.raw.seek, confluent_kafka.TopicPartition(*partition, offset))

    def _taken_away(self) -> None:
        self._revocations += 1
        if self._since and self.delivery is Delivery.EXACTLY_ONCE:
            self._torn = True

    def _settle(self) -> None:
        """The record that was handed out last is done."""
        handed, self._handed = self._handed, None
        if handed is not None:
            self._done[_partition_of(handed)] = (handed.offset() or 0) + 1

    def _store(self) -> None:
        """Give librdkafka what it may commit: in the background, at a rebalance, at the close."""
        done = self._done
        if not done or not self._commits:
            return
        try:
            self.raw.store_offsets(offsets=_with_offsets(done))
        except confluent_kafka.KafkaException as error:
            log.debug("offsets of partitions that are not ours any more: %s", failure_of(error))
        done.clear()

    def _commit_stored(self) -> None:
        try:
            self.raw.commit(asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:  # nothing is new
                raise failure_of(error) from None

    def _commit_before(self, messages: list[confluent_kafka.Message]) -> None:
        if self._commits:
            ends = {_partition_of(each): (each.offset() or 0) + 1 for each in messages}
            _call(self.raw.commit, offsets=_with_offsets(ends), asynchronous=False)

    def _forget(self) -> None:
        self._pending.clear()
        self._handed = None
        self._done.clear()
        self._since.clear()
        self._torn = False

    # The end

    def close(self, *, done: bool = True) -> None:
        """Leave the group. The record handed out last is done, unless `done` is False."""
        if self._closed:
            return
        self._closed = True
        if done:
            self._settle()
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


class _Told:
    """librdkafka's rebalance calls, as a listener wants them."""

    def __init__(self, consumer: Consumer[Any, Any], listener: RebalanceListener | None) -> None:
        self._consumer = consumer
        self._listener = listener

    def assigned(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        if self._listener is not None:
            self._listener.on_assigned(_ours(partitions))

    def revoked(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        self._consumer._taken_away()
        if self._listener is not None:
            self._listener.on_revoked(_ours(partitions))

    def lost(self, _: object, partitions: list[confluent_kafka.TopicPartition]) -> None:
        for each in _ours(partitions):
            self._consumer._done.pop(each, None)
        self._consumer._taken_away()
        if self._listener is not None:
            self._listener.on_lost(_ours(partitions))


def posix_pattern(pattern: str) -> str:
    """A regular expression as librdkafka wants it: POSIX, and `^` says that it is one."""
    inner = pattern.removeprefix("^").removesuffix("$")
    return f"^({inner.replace('(?:', '(').replace(chr(92) + 'd', '[0-9]')})$"


def _partition_of(message: confluent_kafka.Message) -> TopicPartition:
    return TopicPartition(message.topic() or "", message.partition() or 0)


def _ours(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]


def _plain(partitions: Iterable[TopicPartition]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*each) for each in partitions]


def _with_offsets(offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*each, offset) for each, offset in offsets.items()]


def _call(what: Callable[..., Any], *arguments: object, **named: object) -> Any:
    try:
        return what(*arguments, **named)
    except confluent_kafka.KafkaException as error:
        raise failure_of(error) from None
