"""The batches of a coordinator's partition, read back from its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from ottla.records.control import Marker, read_marker
from ottla.records.record import Record, read_records
from ottla.replica.partition import Partition


class StoredBatch(NamedTuple):
    """A batch of the log: its records, or the marker of a transaction."""

    header: BatchHeader
    records: list[Record]
    marker: Marker | None


def read_stored_batches(partition: Partition, *, size_max: int) -> Iterator[list[StoredBatch]]:
    """All batches of a partition in order, as many at a time as `size_max` bytes hold.

    Up to the end of the log: what a new leader finds there it will commit, or lose its leadership.
    To act upon it, wait for that (`when_committed`).
    """
    offset = partition.log.start_offset
    while offset < partition.log.end_offset:
        found = partition.log.read(offset, size_max=size_max, end_offset=partition.log.end_offset)
        if found is None:
            return
        batches, offset = _read(found.read(), offset)
        yield batches


def _read(data: bytes, offset: int) -> tuple[list[StoredBatch], int]:
    """The whole batches in `data`, and the offset after them."""
    found: list[StoredBatch] = []
    position = 0
    while position + BATCH_OVERHEAD <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            break
        if header.control:
            found.append(StoredBatch(header, [], read_marker(data, header)))
        else:
            found.append(StoredBatch(header, read_records(data, header), None))
        position += header.size
        offset = header.next_offset
    if not position:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at offset {offset}")
    return found, offset
