"""Dead letters (KIP-1191): headers about the record, and its key and value if copied.

The headers are Kafka's, all of them text. A copy has the record's key and value and not its own
headers, as in Kafka; these can be read from the record, by topic, partition and offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.coordinator.share.partition import DeadRecords
from ottla.errors import KafkaError
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from ottla.records.record import Record, read_records
from ottla.replica.partition import READ_UNCOMMITTED, Partition

READ_BYTES_MAX: Final = 1024 * 1024  # of the log at a time, for copies
RECORD_OVERHEAD_MAX: Final = 32  # lengths and deltas around key, value and headers
HEADER_OVERHEAD_MAX: Final = 10


class DeadLetterSource(NamedTuple):
    """Dead records of one partition and one group, with the same cause."""

    group_id: str
    topic: str
    partition: int
    dead: DeadRecords


class RecordGroup(Protocol):
    """Records that go to the same partition."""

    @property
    def records(self) -> list[Record]: ...


P = TypeVar("P", bound=RecordGroup)


def dead_letter_records(
    letter: DeadLetterSource, offset: int, copied: Partition | None, size_max: int, now_ms: int
) -> tuple[list[Record], int]:
    """Dead letters from `offset` on that fit into a batch, and the first offset that is left.

    A record that cannot be read, or is too large with the headers, goes without key and value.
    """
    last, copies = letter.dead.last, dict[int, Record]()
    if copied is not None:
        last, copies = _copies(copied, offset, last, size_max)
    records: list[Record] = []
    size = BATCH_OVERHEAD
    for source_offset in range(offset, last + 1):
        record = Record(timestamp=now_ms, headers=_headers(letter, source_offset))
        copy = copies.get(source_offset)
        if copy is not None and _size(record, copy) + BATCH_OVERHEAD <= size_max:
            record.key, record.value = copy.key, copy.value
        size += _size(record, record)
        if records and size > size_max:
            break
        records.append(record)
    return records, offset + len(records)


def batches_of(parcels: Sequence[P], size_max: int) -> tuple[list[P], list[P]]:
    """Parcels that fit into one batch, at least one, and the rest."""
    size = BATCH_OVERHEAD
    for count, parcel in enumerate(parcels):
        size += sum(_size(record, record) for record in parcel.records)
        if count and size > size_max:
            return list(parcels[:count]), list(parcels[count:])
    return list(parcels), []


def _headers(letter: DeadLetterSource, offset: int) -> list[tuple[str, bytes | None]]:
    return [
        ("__dlq.errors.topic", letter.topic.encode()),
        ("__dlq.errors.partition", b"%d" % letter.partition),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", letter.group_id.encode()),
        ("__dlq.errors.delivery.count", b"%d" % letter.dead.delivery_count),
        ("__dlq.errors.message", letter.dead.cause.encode()),
    ]


def _size(record: Record, content: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    headers += HEADER_OVERHEAD_MAX * len(record.headers)
    return headers + len(content.key or b"") + len(content.value or b"") + RECORD_OVERHEAD_MAX


def _copies(
    partition: Partition, first: int, last: int, size_max: int
) -> tuple[int, dict[int, Record]]:
    """The last offset that one read covers, and the records that it found.

    A log that can't be read any more gives no copies: the dead letters still name the records.
    """
    found: dict[int, Record] = {}
    try:
        size = READ_BYTES_MAX if last > first else 1  # one record: its batch, and no more
        read = partition.read(
            first, size_max=size, isolation=READ_UNCOMMITTED, whole_first_batch=True
        )
    except KafkaError:
        return last, found
    data = b"" if read.records is None else read.records.read()
    reached = last if not data else first
    for header in _batches(data):
        if header.base_offset > last:
            return last, found
        reached = header.last_offset
        for record in _records(data, header, size_max):
            if first <= record.offset <= last:
                found[record.offset] = record
    return min(max(reached, first), last), found


def _batches(data: bytes) -> Iterator[BatchHeader]:
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield header
        position += header.size


def _records(data: bytes, header: BatchHeader, size_max: int) -> list[Record]:
    """None if they would unpack to more than a dead letter topic takes: a decompression bomb."""
    if header.control:
        return []
    try:
        return read_records(data, header, size_max=max(size_max, header.size))
    except KafkaError:
        return []
