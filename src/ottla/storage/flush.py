"""Flushing a log without stopping the event loop.

The loop's thread makes a job, a helper thread runs it, and the loop's thread calls `done`. Only
then does the recovery point move, because a recovery trusts everything below it. A running job has
open files and paths, and never touches the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage import checkpoints
from ottla.storage.files import File
from ottla.storage.log_dir import LogDir
from ottla.storage.log_segment import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    UNKNOWN,
)

if TYPE_CHECKING:
    from ottla.storage.log import Log

SEGMENTS_MAX = 16  # in one job: each keeps a file open


class FlushJob:
    """A flush of some segments of one log, from its recovery point on."""

    __slots__ = ("_files", "_generation", "_log", "_now_ms", "_paths", "_segments", "end_offset")

    def __init__(self, log: Log, end_offset: int, now_ms: int) -> None:
        self._log = log
        self._files = log.dir.files
        self._now_ms = now_ms
        self._generation = log.generation
        self._segments: list[File] = []
        self._paths: list[str] = []
        segments = log.segments
        for slot in range(segments.slot(log.recovery_point), len(segments)):
            segment = segments[slot]
            if segment.base_offset >= end_offset:
                break
            if len(self._segments) == SEGMENTS_MAX:
                end_offset = segment.base_offset  # the next job flushes the rest
                break
            segment.save_indexes()
            self._segments.append(segment.open_file())
            if segment.offset_index.file.written:
                self._paths.append(segment.path + INDEX_SUFFIX)
            if segment.time_index.file.written:
                self._paths.append(segment.path + TIME_INDEX_SUFFIX)
            if segment.transactions.written:
                self._paths.append(segment.path + TRANSACTION_INDEX_SUFFIX)
        for offset in log.snapshots.offsets:
            if log.recovery_point <= offset <= end_offset:
                self._paths.append(log.snapshots.path(offset))
        self._paths += (f"{log.path}/{checkpoints.LEADER_EPOCHS}", log.path)
        if log.recovery_point <= segments.first_offset:
            self._paths.append(f"{log.path}/{checkpoints.PARTITION_METADATA}")
        if log.dir.has_new_names:
            self._paths.append(log.dir.path)
            log.dir.has_new_names = False
        self.end_offset = end_offset

    @property
    def directory(self) -> LogDir:
        return self._log.dir

    def run(self) -> None:
        """In any thread: sync the data first, then the indexes, then the directories.

        A crash in between then leaves at worst an index that lacks entries, never one that leads
        to batches which are not there.
        """
        for file in self._segments:
            file.sync()
        for path in self._paths:
            try:
                self._files.sync(path)
            except FileNotFoundError:
                continue  # deleted meanwhile, or never written

    def done(self, error: OSError | None = None) -> None:
        """In the loop's thread, with the OSError that `run` raised, if any."""
        log = self._log
        if error is not None:
            log.dir.has_new_names = True
            log.dir.failed(error, f"{log.name}: flush")
        elif log.generation == self._generation:  # else these bytes may have been cut off since
            assert self.end_offset <= log.end_offset  # it falls by truncation only
            log.flushed(self.end_offset, self._now_ms)


def flush(log: Log, now_ms: int) -> None:
    """Sync everything to the disk before this returns."""
    while log.recovery_point < log.end_offset:
        save_epochs(log)
        job = FlushJob(log, log.end_offset, now_ms)
        job.run()
        job.done()


def save_epochs(log: Log) -> None:
    if log.epochs.dirty:
        data = checkpoints.write_epoch_checkpoint(log.epochs.entries())
        log.dir.files.replace(f"{log.path}/{checkpoints.LEADER_EPOCHS}", data, sync=False)
        log.epochs.saved()


def save(log: Log) -> None:
    """Write what the next start needs to skip the scan: indexes, epochs, a snapshot."""
    segments = log.segments
    for slot in range(segments.slot(log.recovery_point), len(segments)):
        segment = segments[slot]
        if segment.max_timestamp != UNKNOWN:  # else it was not used since the start
            segment.close_indexes()
    end_offset = log.end_offset
    if end_offset not in log.snapshots.offsets and end_offset > segments.first_offset:
        log.take_snapshot(end_offset)
    save_epochs(log)
