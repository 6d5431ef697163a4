"""A coordinator's side of disk and clock: its partition of an internal topic, and a timer.

Coordinators are state machines without I/O. What they share to be carried out is here: their
records are appended to a partition and read back from it, requests wait for answers, and one timer
stands for all their deadlines.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.clock import Clock
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    NO_PRODUCER_ID,
    BatchHeader,
    Origin,
    build_batch,
    read_header,
)
from ottla.records.control import Marker, read_marker
from ottla.records.record import Record, read_records
from ottla.replica.partition import Partition

# Deadlines are hours on the clock, and a clock may be set back and forth again: an alarm that was
# set in between would ring an hour late.
ALARM_S_MAX: Final = 1.0
RECORD_OVERHEAD_MAX: Final = 32  # lengths and deltas around a record's key and value

RecordBytes = tuple[bytes, bytes | None]  # key, and value or None for a tombstone

R = TypeVar("R")
S = TypeVar("S")

Tell = Callable[[ErrorCode], None]


class Stored(NamedTuple):
    """A batch as it was found in the log: what it holds, or which transaction it ends."""

    header: BatchHeader
    records: list[Record]
    marker: Marker | None


class Answer(Generic[R]):
    """What a request is told, at once or when its time has come. The token of a request."""

    __slots__ = ("_calls", "given", "response")

    def __init__(self) -> None:
        self.given = False
        self.response: R  # once it is given
        self._calls: list[Callable[[R], None]] = []

    def give(self, response: R) -> None:
        assert not self.given
        self.given = True
        self.response = response
        for call in self._calls:
            call(response)

    def when(self, call: Callable[[R], None]) -> None:
        """Call with the response: now if it is there, else in the moment in which it comes."""
        if self.given:
            call(self.response)
        else:
            self._calls.append(call)

    def map(self, make: Callable[[R], S]) -> Answer[S]:
        """What is made of the response, as soon as that is there."""
        made = Answer[S]()
        self.when(lambda response: made.give(make(response)))
        return made

    def result(self) -> R | asyncio.Future[R]:
        """The response if it is there, else a future of it."""
        if self.given:
            return self.response
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def come(response: R) -> None:
            if not future.done():  # the client may have left
                future.set_result(response)

        self._calls.append(come)
        return future


def all_of(answers: Sequence[Answer[R]]) -> Answer[list[R]]:
    """All of them together, in their order: there when the last one is."""
    gathered = Answer[list[R]]()
    found: dict[int, R] = {}

    def take(index: int, response: R) -> None:
        found[index] = response
        if len(found) == len(answers):
            gathered.give([found[each] for each in range(len(answers))])

    if not answers:
        gathered.give([])
    for index, answer in enumerate(answers):
        answer.when(partial(take, index))
    return gathered


def then(result: R | asyncio.Future[R], finish: Callable[[R], S]) -> S | Coroutine[None, None, S]:
    """`finish` of an answer, now if it is there, else when it comes."""
    if isinstance(result, asyncio.Future):
        return _finish_later(result, finish)
    return finish(result)


async def _finish_later(future: asyncio.Future[R], finish: Callable[[R], S]) -> S:
    return finish(await future)


async def answer_of(handled: asyncio.Future[Any]) -> Any:
    """What a handler answers that could not begin at once: a response, or one that comes later.

    Here, and not where it is needed: a compiled coroutine is none that the server would know.
    """
    answer = await handled
    return await answer if inspect.isawaitable(answer) else answer


class Alarm:
    """One timer, set to the earliest of many deadlines; `ring(now_ms)` sets it again."""

    def __init__(self, clock: Clock, ring: Callable[[int], int | None]) -> None:
        """`ring` does what is due and gives the next deadline, or None if there is none."""
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0

    def set(self, due_ms: int | None, now_ms: int) -> None:
        """Ring at `due_ms` at the latest."""
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        self.stop()
        self._due_ms = due_ms
        wait_s = min(max(due_ms - now_ms, 0) / 1000, ALARM_S_MAX)
        self._timer = self._loop.call_later(wait_s, self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        self.set(self._ring(now_ms), now_ms)


def append(
    partition: Partition,
    records: list[RecordBytes],
    now_ms: int,
    *,
    codec: int,
    producer: tuple[int, int] | None = None,
) -> None:
    """A coordinator's records, as one batch; with a producer's id and epoch, in its transaction.

    Like a Produce with acks=all: nothing is appended where too few replicas are in sync.
    """
    partition.check_min_isr()
    producer_id, producer_epoch = producer or (NO_PRODUCER_ID, -1)
    for batch in _batches(records, partition.log.config.max_message_bytes):
        data = build_batch(
            [Record(timestamp=now_ms, key=key, value=value) for key, value in batch],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # as Kafka has it; nobody counts a coordinator's batches
            transactional=producer is not None,
        )
        partition.append(memoryview(bytearray(data)), now_ms, origin=Origin.COORDINATOR)


def _batches(records: list[RecordBytes], size_max: int) -> Iterator[list[RecordBytes]]:
    """Nearly always one. Only a great many tombstones, each for itself, do not fit into it."""
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


def is_committed(partition: Partition) -> bool:
    """Whether all that the log holds now is."""
    return partition.high_watermark >= partition.log.end_offset


def when_committed(partition: Partition, tell: Tell, *, timeout_ms: int | None = None) -> None:
    """Tell NONE once all that the log holds now is committed: at once where it is.

    Else one of these, and what was appended may be committed all the same:

        NOT_LEADER_OR_FOLLOWER   another broker leads the partition, and decides what becomes of it
        REQUEST_TIMED_OUT        not within `timeout_ms`
    """
    if is_committed(partition):
        tell(ErrorCode.NONE)
    else:
        _Commit(partition, tell, timeout_ms)


class _Commit:
    """One wait for the replicas of a partition."""

    __slots__ = ("_loop", "_tell", "_timer")

    def __init__(self, partition: Partition, tell: Tell, timeout_ms: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell: Tell | None = tell
        self._timer: asyncio.TimerHandle | None = None
        if timeout_ms is not None:
            late = ErrorCode.REQUEST_TIMED_OUT
            self._timer = self._loop.call_later(timeout_ms / 1000, self._finish, late)
        partition.on_committed(partition.log.end_offset, self._committed)

    def _committed(self, code: ErrorCode) -> None:
        """In a turn of its own: whoever calls is in the midst of changing the partition."""
        self._loop.call_soon(self._finish, code)

    def _finish(self, code: ErrorCode) -> None:
        tell, self._tell = self._tell, None
        if self._timer is not None:
            self._timer.cancel()
        if tell is not None:
            tell(code)


def read_committed(
    response: R,
    partitions: Iterable[Partition | None],
    refuse: Callable[[R, ErrorCode], R],
    *,
    timeout_ms: int,
) -> R | Coroutine[None, None, R]:
    """What was read of a coordinator's partitions, once nothing of it can be lost any more."""
    waiting = [each for each in partitions if each is not None and not is_committed(each)]
    if not waiting:
        return response
    answers = [Answer[ErrorCode]() for _ in waiting]
    for answer, partition in zip(answers, waiting, strict=True):
        when_committed(partition, answer.give, timeout_ms=timeout_ms)

    def told(codes: list[ErrorCode]) -> R:
        lost = next((code for code in codes if code is not ErrorCode.NONE), None)
        return response if lost is None else refuse(response, lost)

    return then(all_of(answers).result(), told)


def stored(partition: Partition, *, size_max: int) -> Iterator[list[Stored]]:
    """All batches of a partition in order, as many at a time as `size_max` bytes hold.

    Up to the log's end: what a new leader finds there, it will commit, or not lead any more.
    Whoever acts upon it waits for that (`when_committed`).
    """
    offset = partition.log.start_offset
    while offset < partition.log.end_offset:
        found = partition.log.read(offset, size_max=size_max, end_offset=partition.log.end_offset)
        if found is None:
            return
        batches, offset = _read(found.read(), offset)
        yield batches


def _read(data: bytes, offset: int) -> tuple[list[Stored], int]:
    """The whole batches in `data`, and the offset after them."""
    found: list[Stored] = []
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        if header.control:
            found.append(Stored(header, [], read_marker(data, header)))
        else:
            found.append(Stored(header, read_records(data, header), None))
        position += header.size
        offset = header.next_offset
    if not position:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at offset {offset}")
    return found, offset
