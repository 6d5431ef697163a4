"""For tests of storage: batches, logs in memory, reading as a consumer does."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.batch import AppendOrigin, BatchHeader, build_batch, read_header
from ottla.records.control import Marker, build_marker
from ottla.records.record import Record, read_records
from ottla.storage.files import Files
from ottla.storage.log import Log, LogAppendInfo, LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.recovery import LoadLogParams, open_log
from ottla.testing.memory_files import MemoryFiles

NOW = 1_700_000_000_000
DIR = "/data"
PATH = "/data/t-0"


def batch(*values: bytes, timestamp: int = NOW, **fields: int | bool) -> bytes:
    """One batch of records with these values; `fields` are those of `build_batch`."""
    records = [Record(timestamp=timestamp, key=b"k", value=value) for value in values or (b"v",)]
    return build_batch(records, **fields)


def marker(producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return build_marker(
        Marker(commit, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp=NOW,
    )


def append(
    log: Log,
    data: bytes,
    *,
    leader_epoch: int = 0,
    now_ms: int = NOW,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> LogAppendInfo:
    view = memoryview(bytearray(data))
    return log.append(view, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)


def open_memory_log(
    files: Files | None = None,
    *,
    clean: bool = True,
    config: LogConfig | None = None,
    recovery_point: int = 0,
    start_offset: int = 0,
    open_segments: OpenSegmentCache | None = None,
    directory: LogDir | None = None,
    now_ms: int = NOW,
) -> Log:
    files = files if files is not None else MemoryFiles()
    files.make_dir(PATH)
    return open_log(
        LoadLogParams(
            directory=directory or LogDir(files, DIR),
            path=PATH,
            topic="t",
            partition=0,
            config=config or LogConfig(),
            open_segments=open_segments or OpenSegmentCache(),
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
        )
    )


def close(log: Log) -> None:
    """Closes one log cleanly, as the store does for all."""
    log.save()
    log.flush(NOW)
    log.close()


def read_all(log: Log, *, start: int | None = None, size_max: int = 1 << 20) -> list[Record]:
    """Every record from `start` to the end, fetched piece by piece."""
    offset = log.start_offset if start is None else start
    found: list[Record] = []
    while offset < log.end_offset:
        piece = log.read(offset, size_max=size_max, end_offset=log.end_offset)
        if piece is None:
            break
        batches = list(whole_batches(piece.read()))
        assert batches, f"no whole batch for offset {offset}"
        for _, records in batches:
            found += [record for record in records if record.offset >= offset]
        assert batches[-1][0].next_offset > offset, f"no progress at offset {offset}"
        offset = batches[-1][0].next_offset
    return found


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """The complete batches in `data`."""
    position = 0
    while position + 61 <= len(data):
        header = read_header(data, position)
        if position + header.size > len(data):
            return
        yield header, read_records(data, header)
        position += header.size


def whole_records(data: bytes) -> list[Record]:
    return [record for _, records in whole_batches(data) for record in records]


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in read_all(log)]
