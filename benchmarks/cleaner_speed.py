"""python -m benchmarks.cleaner_speed: how fast the cleaner goes through a log, without a broker.

Builds a log in a directory, cleans it in this process, and reads the same bytes once more with the
decoder that every other reader uses, and once by headers and checksums alone. Time is the process's
own CPU time, which other work on the machine disturbs least. Run it with the interpreter of the
compiled build to measure that one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from ottla.records import record as record_module
from ottla.records.batch import build_batch, read_header
from ottla.records.compression import CODEC_NAMES
from ottla.records.record import Record, read_records
from ottla.storage import scan
from ottla.storage.cleaner import CleanerConfig, make_task, measure_dirt
from ottla.storage.files import DiskFiles
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.recovery import LoadLogParams, open_log
from ottla.storage.segment_cleaner import clean

NOW_MS = 1_700_000_000_000
MB = 1_000_000
SEGMENT_BYTES = 16 * 1024 * 1024


def main() -> None:
    given = arguments()
    directory = Path(tempfile.mkdtemp(prefix="cleaner-", dir=given.directory))
    try:
        compiled = not str(record_module.__file__).endswith(".py")
        print(f"{'compiled' if compiled else 'interpreted'}: {vars(given)}")
        measure(directory, given)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def measure(directory: Path, given: argparse.Namespace) -> None:
    log = make_log(directory, given)
    log.roll(NOW_MS)
    task = make_task(
        measure_dirt(log, log.end_offset, NOW_MS),
        CleanerConfig(given.table_mb * MB, 256 * 1024, None),
        NOW_MS,
    )
    size = sum(source.size for source in task.plan.sources)
    show("headers and checksums", size, lambda: walk(log))
    show("decode of the records", size, lambda: decode(log))
    began = time.process_time()
    for answer in clean(DiskFiles(), task.plan, lambda _: None, time.process_time):
        if answer.cleaned is not None:
            task.swap(answer.cleaned, NOW_MS)
        if answer.finished is not None:
            finished = answer.finished
            assert not finished.failure, finished.failure
    seconds = time.process_time() - began
    print(
        f"{'cleaning, both passes':24} {size / MB / seconds:8.1f} MB/s of log, "
        f"{finished.records_read / seconds:,.0f} records/s, {finished.records_kept:,} of "
        f"{finished.records_read:,} records kept, {finished.key_count:,} keys"
    )


def make_log(directory: Path, given: argparse.Namespace) -> Log:
    files = DiskFiles()
    path = str(directory / "t-0")
    files.make_dir(path)
    config = LogConfig(cleanup_policy=frozenset(("compact",)), segment_bytes=SEGMENT_BYTES)
    log = open_log(
        LoadLogParams(
            directory=LogDir(files, str(directory)),
            path=path,
            topic="t",
            partition=0,
            config=config,
            residents=OpenSegmentCache(),
            now_ms=NOW_MS,
            clean=True,
        )
    )
    chance = random.Random(1)
    written = 0
    while written < given.mb * MB:
        records = [
            Record(
                timestamp=NOW_MS + i,
                key=b"key-%012d" % chance.randrange(given.keys),
                value=chance.randbytes(given.value // 2).hex().encode(),
            )
            for i in range(given.batch)
        ]
        data = bytearray(build_batch(records, compression=CODEC_NAMES.index(given.codec)))
        written += len(data)
        log.append(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
    return log


def walk(log: Log) -> None:
    for segment in list(log.segments)[:-1]:
        for _ in scan.checked_headers(segment.open_file(), 0, segment.size):
            pass


def decode(log: Log) -> None:
    for segment in list(log.segments)[:-1]:
        data = segment.open_file().pread(segment.size, 0)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            read_records(data, header)
            position += header.size


def show(name: str, size: int, work: object) -> None:
    began = time.process_time()
    assert callable(work)
    work()
    print(f"{name:24} {size / MB / (time.process_time() - began):8.1f} MB/s of log")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--mb", type=int, default=100, help="size of the log")
    add("--keys", type=int, default=50_000, help="different keys")
    add("--value", type=int, default=100, help="bytes of a value")
    add("--batch", type=int, default=120, help="records in a batch")
    add("--codec", choices=CODEC_NAMES, default="none")
    add("--table-mb", type=int, default=120)
    add("--directory", type=Path, default=Path.cwd())
    return parser.parse_args()


if __name__ == "__main__":
    main()
