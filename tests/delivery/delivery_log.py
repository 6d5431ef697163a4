"""A partition's log as bytes from Fetch, decoded without ottla.records.

Batches of format 2, uncompressed: the workers of these tests compress nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL, CONTROL, COMPRESSED = 0x10, 0x20, 0x07
ABORT, COMMIT = 0, 1


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    marker: int | None
    """ABORT or COMMIT if this is a transaction marker, else None."""
    records: tuple[Record, ...]
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction in a read_committed Fetch: skip this producer from here on."""

    producer_id: int
    first_offset: int


def batches_of(data: bytes) -> Iterator[Batch]:
    """The complete batches; the last one in a Fetch may be incomplete."""
    position = 0
    while position + HEAD.size <= len(data):
        head = HEAD.unpack_from(data, position)
        base, size, led, magic, _, attributes, last_delta, _, _, pid, epoch, _, count = head
        end = position + 12 + size
        if end > len(data):
            return
        assert magic == 2, f"a batch of format {magic}"
        assert not attributes & COMPRESSED, "a compressed batch"
        records = tuple(_records(data, position + HEAD.size, base, count))
        marker = None
        if attributes & CONTROL:
            assert records[0].key is not None
            _, marker = struct.unpack(">hh", records[0].key)
        transactional = bool(attributes & TRANSACTIONAL)
        yield Batch(base, base + last_delta, pid, epoch, transactional, marker, records, led)
        position = end


def committed(batches: Iterable[Batch]) -> list[Record]:
    """What read_committed must return, by the markers in the log: records outside of transactions,
    and of committed transactions, in the order of offsets."""
    shown: list[Record] = []
    open_records: dict[int, list[Record]] = {}
    for batch in batches:
        if batch.marker is not None:
            ended = open_records.pop(batch.producer_id, [])
            if batch.marker == COMMIT:
                shown += ended
        elif batch.transactional:
            open_records.setdefault(batch.producer_id, []).extend(batch.records)
        else:
            shown += batch.records
    return sorted(shown, key=lambda record: record.offset)


def open_producers(batches: Iterable[Batch]) -> set[int]:
    """Producers whose last transaction has no marker yet."""
    found: set[int] = set()
    for batch in batches:
        if batch.marker is not None:
            found.discard(batch.producer_id)
        elif batch.transactional:
            found.add(batch.producer_id)
    return found


def shown_by_a_client(
    batches: Iterable[Batch], aborted: Iterable[AbortedTransaction]
) -> list[Record]:
    """What a consumer returns of a read_committed Fetch: it trusts the list of the broker."""
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    skipped: set[int] = set()
    shown: list[Record] = []
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            skipped.add(waiting.pop().producer_id)
        if batch.marker is not None:
            if batch.marker == ABORT:
                skipped.discard(batch.producer_id)
        elif not (batch.transactional and batch.producer_id in skipped):
            shown += batch.records
    return shown


def _records(data: bytes, position: int, base: int, count: int) -> Iterator[Record]:
    for _ in range(count):
        size, position = _varint(data, position)
        end = position + size
        position += 1  # attributes
        _, position = _varint(data, position)
        delta, position = _varint(data, position)
        key, position = _field(data, position)
        value, position = _field(data, position)
        yield Record(base + delta, key, value)
        position = end


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    if size < 0:
        return None, position
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
