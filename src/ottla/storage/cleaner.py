"""Which log is to be cleaned next, and how far (KIP-58, KIP-354).

    clean   up to the first dirty offset: a key has one record at most
    dirty   from there on, as far as it may be cleaned:
            closed segments only, nothing beyond the last stable offset, and nothing younger than
            min.compaction.lag.ms

The log whose dirty part is the largest share of both goes first, if that share is above its
min.cleanable.dirty.ratio, or if its oldest dirty record has waited for max.compaction.lag.ms.

All of this belongs to the loop's thread. The cleaning itself does not: see `cleaner_work`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.errors import KafkaError
from ottla.storage import swap
from ottla.storage.checkpoints import DamagedError
from ottla.storage.cleaner_plan import Cleaned, Finished, Plan, Source
from ottla.storage.log import Log
from ottla.storage.log_config import COMPACT, LONG_MAX
from ottla.storage.segment import Segment, file_name

_log = logging.getLogger("ottla.storage.cleaner")

StableOffset = Callable[[Log], int]  # the last stable offset of a log, -1 if it has no leader


@dataclass(frozen=True, slots=True)
class Limits:
    """What one cleaning may use: the log.cleaner settings, for one of log.cleaner.threads."""

    table_size: int  # log.cleaner.dedupe.buffer.size * log.cleaner.io.buffer.load.factor
    buffer_size: int  # log.cleaner.io.buffer.size
    bytes_per_second: float | None


@dataclass(frozen=True, slots=True)
class Dirt:
    """How dirty a log is."""

    log: Log
    first_dirty_offset: int
    end_offset: int  # the first that may not be cleaned: where a segment begins
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


class Task:
    """One log that is being cleaned, from the plan to the last swap."""

    def __init__(self, dirt: Dirt, plan: Plan, segments: list[Segment]) -> None:
        self.log = dirt.log
        self.plan = plan
        self._segments = {segment.base_offset: segment for segment in segments}
        self._generation = dirt.log.generation
        self._whole = True  # every group was swapped in

    @property
    def has_lost_sources(self) -> bool:
        """Retention or DeleteRecords took segments that were still to be read: no damage."""
        kept = set(self.log.segments)
        return any(segment not in kept for segment in self._segments.values())

    @property
    def is_void(self) -> bool:
        """The log was cut, closed or deleted, or is no longer compacted."""
        log = self.log
        return (
            log.closed
            or log.dir.offline
            or log.generation != self._generation
            or COMPACT not in log.config.cleanup_policy
        )

    def swap(self, cleaned: Cleaned, now_ms: int) -> None:
        """A group is done: it takes the place of its sources, if these are still what they were.

        None does behind one that could not: it may lack a tombstone, for which that one still has
        the value that was deleted.
        """
        sources = [self._segments[base] for base in cleaned.base_offsets]
        if not self._whole or self.is_void or not self.log.swap_in(cleaned, sources, now_ms):
            self._whole = False
            return
        for base in cleaned.base_offsets:
            del self._segments[base]

    def discard(self) -> None:
        """Remove what was made and not swapped in, once nobody writes to it any more.

        At the next start it would be taken for a swap that has just begun, and those behind it
        for undecided. Where one has stopped halfway nothing is touched: that start needs it all.
        """
        if not self.log.dir.offline:
            with contextlib.suppress(OSError):
                for base in self._segments:
                    swap.discard(self.log.dir.files, f"{self.log.path}/{file_name(base)}")

    def finish(self, finished: Finished) -> None:
        """All groups are done. What was not swapped in stays dirty."""
        if self._whole and not self.is_void:
            self.log.first_dirty_offset = finished.end_offset
        _say(self.log, finished, self._whole)


class Cleaner:
    """Chooses among the logs, and knows which are under way and which cannot be cleaned."""

    def __init__(self, stable_offset: StableOffset) -> None:
        self._stable_offset = stable_offset
        self._busy: list[Log] = []
        self.uncleanable: dict[Log, str] = {}

    def next_task(self, logs: Iterable[Log], limits: Limits, now_ms: int) -> Task | None:
        """The filthiest log; None if none is dirty enough."""
        best: Dirt | None = None
        for log in logs:
            if (
                COMPACT not in log.config.cleanup_policy
                or log.dir.offline
                or log in self._busy
                or log in self.uncleanable
            ):
                continue
            found = self._look(log, now_ms)
            if found is not None and found.is_due and (best is None or found.ratio > best.ratio):
                best = found
        if best is None:
            return None
        try:
            task = make_task(best, limits, now_ms)
        except (KafkaError, DamagedError, OSError) as error:
            self.give_up(best.log, str(error))
            return None
        self._busy.append(best.log)
        return task

    def _look(self, log: Log, now_ms: int) -> Dirt | None:
        try:
            return look(log, self._stable_offset(log), now_ms)
        except (KafkaError, DamagedError, OSError) as error:
            self.give_up(log, str(error))
            return None

    def end(self, task: Task) -> None:
        self._busy.remove(task.log)

    def give_up(self, log: Log, why: str) -> None:
        """Said once; it is not tried again before the next start."""
        for gone in [each for each in self.uncleanable if each.closed]:
            del self.uncleanable[gone]
        self.uncleanable[log] = why
        _log.error("%s cannot be cleaned, and is left as it is: %s", log.name, why)


def look(log: Log, stable_offset: int, now_ms: int) -> Dirt:
    """How dirty a log is now."""
    first_dirty = log.first_dirty_offset
    if not log.segments.first_offset <= first_dirty <= log.end_offset:
        first_dirty = log.segments.first_offset
    config = log.config
    segments = log.segments
    end_offset = segments.first_offset
    clean_size = dirty_size = 0
    oldest = LONG_MAX  # timestamp of the first dirty record
    for slot in range(len(segments) - 1):
        segment = segments[slot]
        segment_end = segments.end_of(slot, log.end_offset)
        dirty = segment_end > first_dirty
        if segment_end > stable_offset:
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
    return Dirt(log, first_dirty, end_offset, clean_size, dirty_size, overdue)


def make_task(dirt: Dirt, limits: Limits, now_ms: int) -> Task:
    log = dirt.log
    config = log.config
    segments = log.segments
    chosen = []
    sources = []
    for slot in range(len(segments) - 1):
        segment = segments[slot]
        if segment.base_offset >= dirt.end_offset:
            break
        chosen.append(segment)
        sources.append(
            Source(
                base_offset=segment.base_offset,
                end_offset=segments.end_of(slot, log.end_offset),
                size=segment.size,
                index_size=segment.offset_index.file.written,
                time_index_size=segment.time_index.file.written,
            )
        )
    plan = Plan(
        path=log.path,
        sources=sources,
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        aborted=log.aborted_transactions(segments.first_offset, dirt.end_offset),
        producers={each.producer_id: (each.last_offset, each.epoch) for each in log.producers()},
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        table_size=limits.table_size,
        buffer_size=limits.buffer_size,
        bytes_per_second=limits.bytes_per_second,
    )
    return Task(dirt, plan, chosen)


def _say(log: Log, finished: Finished, whole: bool) -> None:
    if not whole:
        _log.info("%s was changed while it was cleaned; what was not swapped in is left", log.name)
    _log.info(
        "%s cleaned up to offset %d: %d of %d records kept, %d bytes read, %d written, %d keys, "
        "%.1f s",
        log.name,
        finished.end_offset,
        finished.records_kept,
        finished.records_read,
        finished.bytes_read,
        finished.bytes_written,
        finished.key_count,
        finished.seconds,
    )
    if finished.records_without_key:
        _log.warning(
            "%s: %d records without a key were dropped; they were written before the topic was "
            "compacted",
            log.name,
            finished.records_without_key,
        )
