"""The contents of a log's files as `kafka-dump-log` prints them.

`dump_lines` prints a whole file, line by line; the functions below it return the same as values.
The broker may be running, or be unable to start: files are read as they are, and damage is
reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.records.batch import CRC_DATA_POSITION, BatchHeader
from ottla.records.checksum import crc32c
from ottla.records.control import read_marker
from ottla.records.record import Record, read_records
from ottla.storage import scan
from ottla.storage.checkpoints import DamagedError
from ottla.storage.files import DiskFiles, Files
from ottla.storage.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    IndexFile,
    OffsetIndex,
    TimeIndex,
)
from ottla.storage.log_segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.storage.producers import ProducerStateEntry
from ottla.storage.snapshots import SUFFIX as SNAPSHOT_SUFFIX
from ottla.storage.snapshots import read_snapshot
from ottla.storage.transaction_index import VERSION, AbortedTransaction, read_aborted

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE_MAX = (1 << 31) - 1  # --max-bytes


class DumpedBatch(NamedTuple):
    """A batch and its position in the file; `header.position` is 0, its position in `data`."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def is_valid(self) -> bool:
        return crc32c(memoryview(self.data)[CRC_DATA_POSITION:]) == self.header.crc

    def records(self) -> list[Record]:
        return read_records(self.data, self.header)


class UnknownFileError(Exception):
    """Not one of the files of a log."""


def dump_lines(
    path: str, *, records: bool = False, contents: bool = False, size_max: int = SIZE_MAX
) -> Iterator[str]:
    """Dump one file. DamagedError if an index or a snapshot does not read as one."""
    suffix = os.path.splitext(path)[1]
    yield f"Dumping {path}"
    if suffix == LOG_SUFFIX:
        yield f"Log starting offset: {base_offset_of(path)}"
        valid = 0
        try:
            for batch in batches(path, size_max=size_max):
                yield batch_line(batch)
                if records or contents:
                    yield from record_lines(batch, contents=contents)
                valid = batch.position + batch.header.size
        except DamagedError:
            if size_max == SIZE_MAX:
                rest = os.path.getsize(path) - valid
                yield f"Found {rest} invalid bytes at the end of {os.path.basename(path)}"
    elif suffix == INDEX_SUFFIX:
        entries = index_entries(path)
        if not entries:
            yield f"{path} is empty."
        yield from (f"offset: {offset} position: {position}" for offset, position in entries)
    elif suffix == TIME_INDEX_SUFFIX:
        for timestamp, offset in time_index_entries(path):
            yield f"timestamp: {timestamp} offset: {offset}"
    elif suffix == TRANSACTION_INDEX_SUFFIX:
        yield from map(aborted_line, aborted_transactions(path))
    elif suffix == SNAPSHOT_SUFFIX:
        yield from map(producer_line, producers(path))
    else:
        raise UnknownFileError(path)


def base_offset_of(path: str) -> int:
    try:
        return int(os.path.basename(path).split(".")[0])
    except ValueError:
        raise UnknownFileError(path) from None


def batches(
    path: str, *, size_max: int = SIZE_MAX, files: Files | None = None
) -> Iterator[DumpedBatch]:
    """The batches of a .log file, whether their checksums are right or not."""
    file = (files or DiskFiles()).open(path, read_only=True)
    for header in scan.headers(file, 0, min(file.size(), size_max)):
        position = header.position
        data = file.pread(header.size, position)
        header.position = 0
        yield DumpedBatch(position, header, data)


def index_entries(path: str, *, files: Files | None = None) -> list[tuple[int, int]]:
    """(offset, position) of an .index."""
    disk = files or DiskFiles()
    file = IndexFile(disk, path, OFFSET_ENTRY_SIZE, disk.size(path))
    return OffsetIndex(file, base_offset_of(path)).entries()


def time_index_entries(path: str, *, files: Files | None = None) -> list[tuple[int, int]]:
    """(timestamp, offset) of a .timeindex."""
    disk = files or DiskFiles()
    file = IndexFile(disk, path, TIME_ENTRY_SIZE, disk.size(path))
    return TimeIndex(file, base_offset_of(path)).entries()


def aborted_transactions(path: str, *, files: Files | None = None) -> list[AbortedTransaction]:
    return read_aborted((files or DiskFiles()).read(path))


def producers(path: str, *, files: Files | None = None) -> list[ProducerStateEntry]:
    return read_snapshot((files or DiskFiles()).read(path))


def batch_line(batch: DumpedBatch) -> str:
    header = batch.header
    horizon = header.delete_horizon_ms
    codec = header.compression
    fields = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.leader_epoch,
        "isTransactional": _bool(header.transactional),
        "isControl": _bool(header.control),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        "position": batch.position,
        _time_type(header): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else codec,
        "crc": header.crc,
        "isvalid": _bool(batch.is_valid),
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def record_lines(batch: DumpedBatch, *, contents: bool) -> Iterator[str]:
    header = batch.header
    try:
        found = batch.records()
    except KafkaError as error:
        yield f"| {error}"
        return
    for record in found:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        names = ",".join(name for name, _ in record.headers)
        line = (
            f"| offset: {record.offset} {_time_type(header)}: {record.timestamp} "
            f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
            f"sequence: {sequence} headerKeys: [{names}]"
        )
        if header.control:
            line += _marker(batch)
        elif contents:
            if record.key is not None:
                line += f" key: {record.key.decode(errors='replace')}"
            if record.value is not None:
                line += f" payload: {record.value.decode(errors='replace')}"
        yield line


def aborted_line(aborted: AbortedTransaction) -> str:
    return (
        f"version: {VERSION} producerId: {aborted.producer_id} firstOffset: "
        f"{aborted.first_offset} lastOffset: {aborted.last_offset} lastStableOffset: "
        f"{aborted.last_stable_offset}"
    )


def producer_line(producer: ProducerStateEntry) -> str:
    open_at = producer.transaction_offset
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.epoch} "
        f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: "
        f"{'OptionalLong.empty' if open_at < 0 else f'OptionalLong[{open_at}]'} "
        f"lastTimestamp: {producer.last_timestamp} "
    )
    for batch in producer.batches[:1]:
        line += (
            f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} "
            f"lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} "
            f"timestamp: {batch.timestamp}"
        )
    return line


def _marker(batch: DumpedBatch) -> str:
    marker = read_marker(batch.data, batch.header)
    if marker is None:
        return ""
    kind = "COMMIT" if marker.commit else "ABORT"
    return f" endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"


def _time_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.log_append_time else "CreateTime"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bool(value: bool) -> str:
    return "true" if value else "false"
