"""Which log to clean next, and how far (KIP-58, KIP-354).

    clean    up to the first dirty offset; a key has at most one record there
    dirty    from there on, as far as it may be cleaned: closed segments only, nothing beyond the
             last stable offset, nothing younger than min.compaction.lag.ms

The log with the largest dirty ratio, dirty bytes by all cleanable bytes, goes first. Its ratio must
be above min.cleanable.dirty.ratio, unless its oldest dirty record is older than
max.compaction.lag.ms.

This is the loop's thread's part. The cleaning itself runs in another process: see
`segment_cleaner`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.errors import KafkaError
from ottla.storage import swap
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import CleanedSegment, CleanerPlan, CleanerStats, SourceSegment
from ottla.storage.log import Log
from ottla.storage.log_config import COMPACT, LONG_MAX
from ottla.storage.log_segment import LogSegment, file_name

_log = logging.getLogger("ottla.storage.cleaner")

StableOffset = Callable[[Log], int]  # the last stable offset of a log; -1 if it has no leader


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The log.cleaner.* settings, as the share of one of log.cleaner.threads."""

    table_size: int  # log.cleaner.dedupe.buffer.size * log.cleaner.io.buffer.load.factor
    buffer_size: int  # log.cleaner.io.buffer.size
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class LogToClean:
    """How dirty a log is."""

    log: Log
    first_dirty_offset: int
    end_offset: int  # the first offset that may not be cleaned: the base offset of a segment
    clean_size: int
    dirty_size: int
    overdue: bool  # max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        return self.dirty_size / max(1, self.clean_size + self.dirty_size)

    @property
    def is_due(self) -> bool:
        if not self.dirty_size:
            return False
        return self.overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio


class CleanerTask:
    """The cleaning of one log, from the plan to the last swap."""

    def __init__(
        self, candidate: LogToClean, plan: CleanerPlan, segments: list[LogSegment]
    ) -> None:
        self.log = candidate.log
        self.plan = plan
        self._segments = {segment.base_offset: segment for segment in segments}
        self._generation = candidate.log.generation
        self._whole = True  # every group was swapped in

    @property
    def has_lost_sources(self) -> bool:
        """True if retention or DeleteRecords deleted segments that were still to be read.

        A failure to read them is then no damage.
        """
        present = set(self.log.segments)
        return any(segment not in present for segment in self._segments.values())

    @property
    def is_void(self) -> bool:
        """True if the log was truncated, closed or deleted, or is no longer compacted."""
        log = self.log
        return (
            log.closed
            or log.dir.offline
            or log.generation != self._generation
            or COMPACT not in log.config.cleanup_policy
        )

    def swap(self, cleaned: CleanedSegment, now_ms: int) -> None:
        """Swap in the segment of a group, if its sources have not changed.

        After a group that can't be swapped in, no later one is: its segment may lack a tombstone
        whose deleted value is still in the sources of the earlier group.
        """
        sources = [self._segments[base] for base in cleaned.base_offsets]
        if not self._whole or self.is_void or not self.log.swap_in(cleaned, sources, now_ms):
            self._whole = False
            return
        for base in cleaned.base_offsets:
            del self._segments[base]

    def discard(self) -> None:
        """Delete the files that were not swapped in, once the process no longer writes to them.

        The next start takes a `.cleaned` file for a swap that was not decided, and would undo swaps
        of later segments with it. If a swap has stopped halfway, nothing is deleted, because that
        start needs all the files.
        """
        if not self.log.dir.offline:
            with contextlib.suppress(OSError):
                for base in self._segments:
                    swap.discard(self.log.dir.files, f"{self.log.path}/{file_name(base)}")

    def finish(self, stats: CleanerStats) -> None:
        """End the cleaning. What was not swapped in stays dirty."""
        if self._whole and not self.is_void:
            self.log.cleaned(stats.end_offset)
        _log_stats(self.log, stats, self._whole)


class Cleaner:
    """Chooses the next log, and knows which logs are being cleaned and which are uncleanable."""

    def __init__(self, stable_offset: StableOffset) -> None:
        self._stable_offset = stable_offset
        self._busy: list[Log] = []
        self.uncleanable: dict[Log, str] = {}

    def next_task(
        self, logs: Iterable[Log], limits: CleanerConfig, now_ms: int
    ) -> CleanerTask | None:
        """The cleaning of the log with the largest dirty ratio; None if none is dirty enough."""
        best: LogToClean | None = None
        for log in logs:
            if (
                COMPACT not in log.config.cleanup_policy
                or log.dir.offline
                or log in self._busy
                or log in self.uncleanable
            ):
                continue
            found = self._measure_dirt(log, now_ms)
            if found is not None and found.is_due and (best is None or found.ratio > best.ratio):
                best = found
        if best is None:
            return None
        try:
            task = make_task(best, limits, now_ms)
        except (KafkaError, DamagedError, OSError) as error:
            self.mark_uncleanable(best.log, str(error))
            return None
        self._busy.append(best.log)
        return task

    def _measure_dirt(self, log: Log, now_ms: int) -> LogToClean | None:
        try:
            return measure_dirt(log, self._stable_offset(log), now_ms)
        except (KafkaError, DamagedError, OSError) as error:
            self.mark_uncleanable(log, str(error))
            return None

    def end(self, task: CleanerTask) -> None:
        self._busy.remove(task.log)

    def mark_uncleanable(self, log: Log, why: str) -> None:
        """Mark a log as uncleanable until the next start.

        Cleaning it again would read all of it, only to fail at the same batch.
        """
        for closed in [known for known in self.uncleanable if known.closed]:
            del self.uncleanable[closed]
        self.uncleanable[log] = why
        _log.error("Marking %s as uncleanable, leaving it unchanged: %s", log.name, why)


def measure_dirt(log: Log, stable_offset: int, now_ms: int) -> LogToClean:
    """How dirty a log is now; `end_offset` is as far as it may be cleaned."""
    first_dirty = log.first_dirty_offset
    if not log.segments.first_offset <= first_dirty <= log.end_offset:
        first_dirty = log.segments.first_offset  # retention or a truncation has passed it
    config = log.config
    segments = log.segments
    end_offset = segments.first_offset
    clean_size = dirty_size = 0
    oldest = LONG_MAX  # timestamp of the first dirty record
    for slot in range(len(segments) - 1):
        segment = segments[slot]
        segment_end = segments.end_of(slot, log.end_offset)
        dirty = segment_end > first_dirty
        if segment_end > stable_offset:  # an open transaction may still commit or abort
            break
        if (
            dirty
            and config.min_compaction_lag_ms > 0
            and segment.largest()[0] > now_ms - config.min_compaction_lag_ms
        ):
            break
        end_offset = segment_end
        if dirty:
            dirty_size += segment.size
            if segment.size and config.max_compaction_lag_ms < LONG_MAX:
                oldest = min(oldest, segment.first_batch_timestamp())
        if segment.base_offset < first_dirty:
            clean_size += segment.size
    overdue = 0 <= oldest < now_ms - config.max_compaction_lag_ms
    return LogToClean(log, first_dirty, end_offset, clean_size, dirty_size, overdue)


def make_task(candidate: LogToClean, limits: CleanerConfig, now_ms: int) -> CleanerTask:
    log = candidate.log
    config = log.config
    segments = log.segments
    chosen = []
    sources = []
    for slot in range(len(segments) - 1):
        segment = segments[slot]
        if segment.base_offset >= candidate.end_offset:
            break
        chosen.append(segment)
        sources.append(
            SourceSegment(
                base_offset=segment.base_offset,
                end_offset=segments.end_of(slot, log.end_offset),
                size=segment.size,
                index_size=segment.offset_index.file.written,
                time_index_size=segment.time_index.file.written,
            )
        )
    plan = CleanerPlan(
        path=log.path,
        sources=sources,
        first_dirty_offset=candidate.first_dirty_offset,
        end_offset=candidate.end_offset,
        aborted=log.aborted_transactions(segments.first_offset, candidate.end_offset),
        producers={
            producer.producer_id: (producer.last_offset, producer.epoch)
            for producer in log.producers()
        },
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        table_size=limits.table_size,
        buffer_size=limits.buffer_size,
        bytes_per_second=limits.bytes_per_second,
    )
    return CleanerTask(candidate, plan, chosen)


def _log_stats(log: Log, stats: CleanerStats, whole: bool) -> None:
    if not whole:
        _log.info("%s changed while it was cleaned; the rest stays dirty", log.name)
    _log.info(
        "Cleaned %s up to offset %d: %d of %d records kept, %d bytes read, %d written, %d keys, "
        "%.1f s",
        log.name,
        stats.end_offset,
        stats.records_kept,
        stats.records_read,
        stats.bytes_read,
        stats.bytes_written,
        stats.key_count,
        stats.seconds,
    )
    if stats.records_without_key:
        _log.warning(
            "%s: removed %d records without a key, written before the topic was compacted",
            log.name,
            stats.records_without_key,
        )
