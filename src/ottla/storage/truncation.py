"""Taking records off a log: the oldest, when they are no longer wanted; the newest, when the leader
has others in their place (KIP-101)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage import retention
from ottla.storage.producers import Producers
from ottla.storage.replay import load_producers

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment


def retain(log: Log, now_ms: int, high_watermark: int) -> int:
    """Drop the segments that retention has done with; gives how many."""
    count = retention.expired(log, now_ms, high_watermark)
    if count:
        drop_first(log, count, now_ms)
    return count


def advance_start(log: Log, offset: int, now_ms: int) -> None:
    """DeleteRecords: the log starts at `offset`, and segments wholly below it go."""
    log.start_offset = offset
    log.epochs.truncate_from_start(offset)
    count = log.segments.slot(offset)
    if count:
        drop_first(log, count, now_ms)


def drop_first(log: Log, count: int, now_ms: int) -> None:
    if count == len(log.segments):
        log.roll(now_ms)
    taken = log.segments.take_first(count)
    log.start_offset = max(log.start_offset, log.segments.first_offset)
    log.epochs.truncate_from_start(log.start_offset)
    discard(log, taken, now_ms)


def discard(log: Log, taken: list[Segment], now_ms: int) -> None:
    for segment in taken:
        log.snapshots.remove(segment.base_offset)
    log.segments.discard(taken, now_ms + log.config.file_delete_delay_ms)


def truncate_to(log: Log, offset: int, now_ms: int) -> None:
    """Cut off the batches from the one that holds `offset` on."""
    segments = log.segments
    slot = segments.slot(offset)
    segments[slot].position_of(offset)  # damage shows here, where nothing is changed yet
    discard(log, segments.take_from(slot + 1), now_ms)
    active = segments.active
    before = active.size
    active.truncate(offset)
    segments.size -= before - active.size
    _ends_at(log, offset)
    for snapshot in sorted(log.snapshots.offsets):
        if snapshot > offset:
            log.snapshots.remove(snapshot)
    log.replace_producers(load_producers(log.snapshots, list(segments), offset, now_ms))


def start_over(log: Log, offset: int, now_ms: int) -> None:
    """Drop everything; the next record gets `offset`."""
    segments = log.segments
    discard(log, segments.take_from(0), now_ms)
    segments.add(segments.make(offset, log.config, now_ms))
    log.start_offset = offset
    _ends_at(log, offset)
    log.epochs.clear()
    for snapshot in sorted(log.snapshots.offsets):
        log.snapshots.remove(snapshot)
    log.replace_producers(Producers())


def _ends_at(log: Log, offset: int) -> None:
    log.end_offset = offset
    log.start_offset = min(log.start_offset, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.first_dirty_offset = min(log.first_dirty_offset, offset)
    log.epochs.truncate_from_end(offset)
    log.generation += 1
