"""A coordinator's side of disk and clock: its partition of an internal topic, and a timer.

Coordinators are state machines without I/O. What they share to be carried out is here: their
records are appended to a partition and read back from it, requests wait for answers, and one timer
stands for all their deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

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

RECORD_OVERHEAD_MAX: Final = 32  # lengths and deltas around a record's key and value

RecordBytes = tuple[bytes, bytes | None]  # key, and value or None for a tombstone

R = TypeVar("R")
S = TypeVar("S")


class Stored(NamedTuple):
    """A batch as it was found in the log: what it holds, or which transaction it ends."""

    header: BatchHeader
    records: list[Record]
    marker: Marker | None


class Answer(Generic[R]):
    """What a request is told, at once or when its time has come. The token of a request."""

    __slots__ = ("_future", "_response")

    def __init__(self) -> None:
        self._response: R | None = None
        self._future: asyncio.Future[R] | None = None

    def give(self, response: R) -> None:
        assert self._response is None
        self._response = response
        if self._future is not None and not self._future.done():
            self._future.set_result(response)

    def result(self) -> R | asyncio.Future[R]:
        """The response if it is there, else a future of it."""
        if self._response is not None:
            return self._response
        self._future = asyncio.get_running_loop().create_future()
        return self._future


def then(result: R | asyncio.Future[R], finish: Callable[[R], S]) -> S | Coroutine[None, None, S]:
    """`finish` of an answer, now if it is there, else when it comes."""
    if isinstance(result, asyncio.Future):
        return _finish_later(result, finish)
    return finish(result)


async def _finish_later(future: asyncio.Future[R], finish: Callable[[R], S]) -> S:
    return finish(await future)


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
        self._timer = self._loop.call_later(max(due_ms - now_ms, 0) / 1000, self._run)

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
    """A coordinator's records, as one batch; with a producer's id and epoch, in its transaction."""
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


def stored(partition: Partition, *, size_max: int) -> Iterator[list[Stored]]:
    """All batches of a partition in order, as many at a time as `size_max` bytes hold."""
    offset = partition.log.start_offset
    while offset < partition.high_watermark:
        found = partition.log.read(offset, size_max=size_max, end_offset=partition.high_watermark)
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
