"""Damaged data directories into the storage room: recovery, and what is done with a log after it.

An input is a whole data directory: for each file u16 length of its name, u32 size, name, bytes.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath

from fuzz_damage import mutate
from fuzz_targets import NOW_MS, Batches, Finding, mend_batches, random_record
from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, build_batch, check_batches
from ottla.records.control import Marker, build_marker
from ottla.records.record import Record
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.store import LogStore, LogStoreError
from ottla.testing.memory_files import MemoryFiles

SCENARIOS = 24  # good directories that inputs are made from
FILES_MAX = 200
READS_MAX = 2000
READ_SIZE = 4000
HOLE_MAX = 200
CONFIG = LogConfig(segment_bytes=40_000, index_interval_bytes=300, segment_index_bytes=4096)
CONFIGS = (
    CONFIG,
    replace(CONFIG, segment_bytes=1 << 20, message_timestamp_after_max_ms=2**63 - 1),
    replace(CONFIG, message_timestamp_type="LogAppendTime"),
    replace(CONFIG, message_timestamp_before_max_ms=10_000),
    replace(CONFIG, cleanup_policy=frozenset(("compact",))),
    replace(CONFIG, compression_type="zstd"),
    replace(CONFIG, compression_type="uncompressed"),
)

_FILE = struct.Struct(">HI")
_SHARED_MEMORY = Path("/dev/shm")


class Storage:
    """Log directories after any shutdown, with damaged, cut, swapped or missing files."""

    name = "storage"

    def __init__(self) -> None:
        self._made: dict[int, bytes] = {}

    def make(self, source: random.Random) -> bytes:
        number = source.randrange(SCENARIOS)
        if number not in self._made:
            self._made[number] = make_directory(random.Random(number))
        return self._made[number]

    def damage(self, data: bytearray, source: random.Random) -> None:
        files = unpack(data)
        assert files is not None
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            damage_file(files, source)
        data[:] = pack(files)

    def run(self, data: bytes, source: random.Random) -> bool:
        files = unpack(data)
        if files is None:
            return False
        with Scratch() as path:
            for name, content in files.items():
                file = path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return check_directory(path, source)


class Appends:
    """Batches into logs of several settings: from a client, a coordinator and a leader."""

    name = "appends"

    def __init__(self) -> None:
        self._batches = Batches()

    def make(self, source: random.Random) -> bytes:
        return self._batches.make(source)

    def damage(self, data: bytearray, source: random.Random) -> None:
        self._batches.damage(data, source)

    def run(self, data: bytes, source: random.Random) -> bool:
        files = MemoryFiles()
        store = LogStore.open(["/data"], CONFIG, NOW_MS, files=files)
        config = source.choice(CONFIGS)
        log = store.create("topic", 0, None, config, now_ms=NOW_MS)
        append(log)
        taken = [check_append(log, data, origin) for origin in AppendOrigin]
        walk(log, True)
        end = log.end_offset
        store.close(NOW_MS)
        again = LogStore.open(["/data"], CONFIG, NOW_MS, files=files)
        reopened = again.get("topic", 0)
        if reopened is None or reopened.end_offset != end:
            raise Finding(f"{reopened} ended at {end} before a clean end")
        return any(taken)


def check_append(log: Log, data: bytes, origin: AppendOrigin) -> bool:
    """An append that fails leaves no trace."""
    before = (log.end_offset, log.size, len(log.producers()), log.epochs.latest)
    try:
        if origin is AppendOrigin.LEADER:
            appended = log.append_as_follower(memoryview(bytearray(data)), now_ms=NOW_MS)
        else:
            view = memoryview(bytearray(data))
            appended = log.append(view, leader_epoch=9, now_ms=NOW_MS, origin=origin)
    except KafkaError:
        after = (log.end_offset, log.size, len(log.producers()), log.epochs.latest)
        if after != before:
            raise Finding(f"{origin.name}: {before} before, {after} after a refusal") from None
        return False
    if not appended.duplicate and appended.last_offset + 1 != log.end_offset:
        raise Finding(f"{origin.name}: {appended}, but {log}")
    return True


class Scratch:
    """A temporary directory, in memory if possible."""

    def __enter__(self) -> Path:
        parent = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
        self._path = Path(tempfile.mkdtemp(prefix="ottla-fuzz-", dir=parent))
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path)


def pack(files: dict[str, bytes]) -> bytes:
    parts = []
    for name, content in files.items():
        encoded = name.encode()
        parts += [_FILE.pack(len(encoded), len(content)), encoded, content]
    return b"".join(parts)


def unpack(data: bytes | bytearray) -> dict[str, bytes] | None:
    """None if the bytes are not a packed directory, or have names that lead out of it."""
    files: dict[str, bytes] = {}
    position = 0
    while position + _FILE.size <= len(data) and len(files) < FILES_MAX:
        name_size, size = _FILE.unpack_from(data, position)
        start = position + _FILE.size + name_size
        name = bytes(data[position + _FILE.size : start]).decode("ascii", "replace")
        parts = PurePosixPath(name).parts
        if not parts or len(parts) > 2 or ".." in parts or "/" in parts or "\0" in name:
            return None
        files[name] = bytes(data[start : start + size])
        position = start + size
    return files if position == len(data) and files else None


# Good directories ---------------------------------------------------------------------------------


def make_directory(source: random.Random) -> bytes:
    with Scratch() as path:
        store = LogStore.open([str(path)], CONFIG, NOW_MS)
        for partition in range(source.choice((1, 1, 2))):
            log = store.create("topic", partition, bytes(range(16)), CONFIG, now_ms=NOW_MS)
            fill(log, source)
        store.checkpoint({("topic", 0): 5})
        crashed = source.random() < 0.5
        if not crashed:
            store.close(NOW_MS)
        files = {
            str(file.relative_to(path)): file.read_bytes()
            for file in sorted(path.rglob("*"))
            if file.is_file()
        }
        if crashed:
            store.close(NOW_MS)
        return pack(files)


def fill(log: Log, source: random.Random) -> None:
    """Batches of plain, idempotent and transactional producers, over a few epochs and segments."""
    sequences = [0, 0, 0]
    for step in range(source.randrange(60)):
        epoch = step // 20
        records = [random_record(source) for _ in range(source.choice((1, 3)))]
        for record in records:
            record.timestamp = min(record.timestamp, NOW_MS)  # the future is refused
        producer = source.randrange(4)
        if producer == 3:
            data = build_batch(records, compression=source.randrange(5))
        else:
            data = build_batch(
                records,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequences[producer],
                transactional=producer == 2,
            )
            sequences[producer] += len(records)
        log.append(memoryview(bytearray(data)), leader_epoch=epoch, now_ms=NOW_MS)
        if producer == 2 and source.random() < 0.5:
            marker = Marker(source.random() < 0.5, 0)
            data = build_marker(marker, producer_id=2, producer_epoch=0, timestamp=NOW_MS)
            log.append(
                memoryview(bytearray(data)),
                leader_epoch=epoch,
                now_ms=NOW_MS,
                origin=AppendOrigin.COORDINATOR,
            )
        if source.random() < 0.05:
            log.flush(NOW_MS)


# Damage -------------------------------------------------------------------------------------------


def damage_file(files: dict[str, bytes], source: random.Random) -> None:
    if not files:
        return
    name = source.choice(list(files))
    content = bytearray(files[name])
    kind = source.randrange(12)
    if kind == 0:
        del files[name]
        return
    if kind == 1:
        other = source.choice(list(files))
        files[name], files[other] = files[other], files[name]
        return
    if kind == 2:
        content.clear()
    elif kind == 3:
        content += bytes(source.choice((1, 8, 12, 61, 5000)))  # as preallocated files end
    elif kind == 4:
        del content[source.randrange(len(content) + 1) :]
        content += bytes(source.choice((0, 100)))
    else:
        mutate(content, source, 3)
        if name.endswith(".log") and source.random() < 0.6:
            mend_batches(content)
    files[name] = bytes(content)


# What must hold -----------------------------------------------------------------------------------


def check_directory(path: Path, source: random.Random) -> bool:
    """Opening may raise LogStoreError and nothing else; using a log may raise KafkaError."""
    trusted = (path / ".kafka_cleanshutdown").exists()
    points = path / "recovery-point-offset-checkpoint"
    if source.random() < 0.5:
        points.unlink(missing_ok=True)
    try:
        store = LogStore.open([str(path)], CONFIG, NOW_MS)
    except LogStoreError:
        return False
    # Without a clean end and without recovery points every byte was looked at.
    scanned = not trusted and not points.exists()
    for log in store.logs():
        try:
            check_log(log, source, scanned)
        except KafkaError:
            if scanned:
                raise
    store.retain(NOW_MS)
    ends = {log.partition: (log.start_offset, log.end_offset) for log in store.logs()}
    store.checkpoint()
    store.close(NOW_MS)
    again = LogStore.open([str(path)], CONFIG, NOW_MS)
    for log in again.logs():
        if scanned and (log.start_offset, log.end_offset) != ends[log.partition]:
            raise Finding(f"{log} was {ends[log.partition]} before a clean end")
    again.close(NOW_MS)
    return True


def check_log(log: Log, source: random.Random, scanned: bool) -> None:
    walk(log, scanned)
    with contextlib.suppress(KafkaError):  # which need the records, not only the headers
        ask(log, source)
    end = log.end_offset
    append(log)
    if log.end_offset != end + 2:
        raise Finding(f"{log} ended at {end} before two records were appended")
    offset = source.randint(log.start_offset, log.end_offset)
    if source.random() < 0.3:
        log.truncate_to(offset, NOW_MS)
        append(log)
        walk(log, scanned)
    if source.random() < 0.3:
        log.delete_records(min(offset, log.end_offset), NOW_MS)
        walk(log, scanned)


def walk(log: Log, scanned: bool) -> None:
    """Read from start to end as a consumer does; every batch of a scanned log must be sound."""
    offset = log.start_offset
    for _ in range(READS_MAX):
        found = log.read(offset, size_max=READ_SIZE, end_offset=log.end_offset)
        if found is None:
            check_hole(log, offset)
            return
        data = found.read()
        if not scanned:
            offset = max(offset + 1, next_offset(data, offset))
            continue
        try:
            headers = check_batches(data, batch_size_max=READ_SIZE, origin=AppendOrigin.LEADER)
        except KafkaError as error:
            if error.code is ErrorCode.CORRUPT_MESSAGE:
                raise Finding(f"{log} at {offset}: {error}") from error
            return  # a checksum that is right for fields that are not: no disk does that
        if not headers or headers[0].last_offset < offset:
            raise Finding(f"{log} gives {headers[:1]} at {offset}")
        for header in headers:
            if header.next_offset <= offset or header.next_offset > log.end_offset:
                raise Finding(f"{log} gives {header} at {offset}")
            offset = header.next_offset
    raise Finding(f"{log} has no end")


def check_hole(log: Log, start: int) -> None:
    """Nothing was found at `start`, so nothing may follow either."""
    for offset in range(start, min(log.end_offset, start + HOLE_MAX)):
        if log.read(offset, size_max=READ_SIZE, end_offset=log.end_offset) is not None:
            raise Finding(f"{log} gives nothing at {start}, but something at {offset}")


def next_offset(data: bytes, offset: int) -> int:
    try:
        headers = check_batches(data, batch_size_max=READ_SIZE, origin=AppendOrigin.LEADER)
    except KafkaError:
        return offset + 1
    return headers[-1].next_offset if headers else offset + 1


def ask(log: Log, source: random.Random) -> None:
    timestamp = NOW_MS + source.randrange(-1500, 1500)
    log.offset_for_time(timestamp, end_offset=log.end_offset)
    log.max_timestamp(end_offset=log.end_offset)
    log.epoch_end_offset(source.randrange(-1, 5))
    log.aborted(log.start_offset, log.end_offset)
    log.producers()


def append(log: Log) -> None:
    """Two records with keys, which every log accepts whatever its settings."""
    records = [Record(timestamp=NOW_MS, key=b"k%d" % n, value=b"v") for n in range(2)]
    log.append(memoryview(bytearray(build_batch(records))), leader_epoch=9, now_ms=NOW_MS)
