"""For tests of the cleaner: a log of small segments, cleaned in this process."""

from __future__ import annotations

from collections.abc import Sequence

from storage_kit import NOW, append, open_memory_log, read_all, whole_batches

from ottla.records.batch import AppendOrigin, BatchHeader, build_batch
from ottla.records.record import Record
from ottla.storage.cleaner import Cleaner, CleanerConfig, CleanerTask, make_task, measure_dirt
from ottla.storage.cleaner_plan import CleanerReport, CleanerStats, read_plan, read_report
from ottla.storage.files import Files
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_config import COMPACT
from ottla.storage.segment_cleaner import clean

COMPACTED = frozenset((COMPACT,))
CONFIG = LogConfig(
    cleanup_policy=COMPACTED,
    segment_bytes=400,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
    index_interval_bytes=100,
)
LIMITS = CleanerConfig(table_size=1 << 20, buffer_size=1 << 16, bytes_per_second=None)

Pair = tuple[bytes | None, bytes | None]


def put(log: Log, *pairs: Pair, timestamp: int = NOW, **fields: int | bool) -> int:
    """One batch of keys and values; its first offset."""
    records = [Record(timestamp=timestamp, key=key, value=value) for key, value in pairs]
    data = build_batch(records, **fields)
    return append(log, data, origin=AppendOrigin.COORDINATOR, now_ms=timestamp).first_offset


def small_log(files: Files | None = None, config: LogConfig = CONFIG, **fields: int | bool) -> Log:
    return open_memory_log(files, config=config, **fields)


def fill(log: Log, keys: int = 5, rounds: int = 10) -> None:
    """Every key once in each round, one record a batch."""
    for number in range(rounds):
        for key in range(keys):
            put(log, (b"k%d" % key, b"v%d" % number))


def answers(task: CleanerTask, files: Files) -> list[CleanerReport]:
    """The results of the cleaner process, as its lines of JSON."""
    plan = read_plan(task.plan.write())
    return [
        read_report(cleaned.write()) for cleaned in clean(files, plan, lambda _: None, lambda: 0.0)
    ]


def task_for(log: Log, *, now_ms: int = NOW, limits: CleanerConfig = LIMITS) -> CleanerTask:
    unstable = log.first_unstable_offset
    stable = log.end_offset if unstable is None else unstable
    return make_task(measure_dirt(log, stable, now_ms), limits, now_ms)


def compact(log: Log, *, now_ms: int = NOW, limits: CleanerConfig = LIMITS) -> CleanerStats:
    """Clean the log once, as the broker does."""
    task = task_for(log, now_ms=now_ms, limits=limits)
    finished = None
    for answer in answers(task, log.dir.files):
        if answer.cleaned is not None:
            task.swap(answer.cleaned, now_ms)
        finished = answer.finished
    assert finished is not None
    if not finished.failure:
        task.finish(finished)
    return finished


def cleaner_for(log: Log) -> Cleaner:
    return Cleaner(lambda _: log.end_offset)


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


def headers(log: Log) -> list[BatchHeader]:
    found = []
    for segment in log.segments:
        data = segment.open_file().pread(segment.size, 0)
        found += [header for header, _ in whole_batches(data)]
    return found


def table(log: Log, skip: Sequence[tuple[int, int]] = ()) -> dict[bytes, bytes]:
    """The state of a consumer that reads everything: key -> value, tombstones applied.

    `skip` are the aborted transactions: producer id, first offset.
    """
    state: dict[bytes, bytes] = {}
    aborting = dict.fromkeys(())
    starts = sorted(skip, key=lambda skipped: skipped[1])
    for segment in log.segments:
        data = segment.open_file().pread(segment.size, 0)
        for header, records in whole_batches(data):
            while starts and starts[0][1] <= header.last_offset:
                aborting[starts.pop(0)[0]] = None
            if header.control:
                if records and records[0].key is not None and records[0].key[3] == 0:
                    aborting.pop(header.producer_id, None)
                continue
            if header.transactional and header.producer_id in aborting:
                continue
            for record in records:
                if record.key is None:
                    continue
                if record.value is None:
                    state.pop(record.key, None)
                else:
                    state[record.key] = record.value
    return state
