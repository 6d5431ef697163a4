"""Removing records from a log: the oldest, by retention or DeleteRecords; the newest, where the
leader's log has other records at these offsets (KIP-101).

Files are renamed first and deleted later, so that a fetch under way can finish and a crash in
between leaves a log that a start can open: the oldest segments go oldest first, the newest ones
newest first, and what is left is always one range of offsets without a hole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage import retention
from ottla.storage.producers import PartitionProducers
from ottla.storage.replay import load_producers

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.log_segment import LogSegment


def delete_old_segments(log: Log, now_ms: int, high_watermark: int) -> int:
    """Delete the segments that retention no longer keeps; returns how many."""
    count = retention.count_past_retention(log, now_ms, high_watermark)
    if count:
        delete_oldest_segments(log, count, now_ms)
    return count


def advance_start_offset(log: Log, offset: int, now_ms: int) -> None:
    """DeleteRecords: the log starts at `offset`; segments wholly below it are deleted."""
    assert log.start_offset < offset <= log.end_offset  # records once deleted never come back
    # Their leader epochs go with them, or a follower could be sent back to a deleted offset.
    log.start_moved(offset)
    count = log.segments.slot(offset)
    if count:
        delete_oldest_segments(log, count, now_ms)


def delete_oldest_segments(log: Log, count: int, now_ms: int) -> None:
    if count == len(log.segments):
        log.roll(now_ms)  # a log always has an active segment, whose name keeps its end offset
    taken = log.segments.take_first(count)
    log.start_moved(max(log.start_offset, log.segments.first_offset))
    delete_segments(log, taken, now_ms)


def delete_segments(log: Log, taken: list[LogSegment], now_ms: int) -> None:
    for segment in taken:
        log.snapshots.remove(segment.base_offset)
    log.segments.discard(taken, now_ms + log.config.file_delete_delay_ms)


def truncate_to(log: Log, offset: int, now_ms: int) -> None:
    """Cut off the batches from the one that holds `offset` on."""
    segments = log.segments
    slot = segments.slot(offset)
    segments[slot].position_of(offset)  # raises for damage while nothing is changed yet
    delete_segments(log, segments.take_from(slot + 1), now_ms)
    active = segments.active
    assert active.base_offset <= offset
    before = active.size
    active.truncate(offset)
    segments.size -= before - active.size
    # The recovery point falls with the end: the leader's records come to the same offsets, and are
    # not on the disk before the next flush.
    log.end_moved(offset)
    assert log.recovery_point <= log.end_offset
    # A snapshot beyond the cut knows sequences of batches that are gone: it would refuse the
    # batches that the new leader has in their place.
    for snapshot in sorted(log.snapshots.offsets):
        if snapshot > offset:
            log.snapshots.remove(snapshot)
    log.replace_producers(load_producers(log.snapshots, list(segments), offset, now_ms))


def truncate_fully(log: Log, offset: int, now_ms: int) -> None:
    """Delete all records; the next one gets `offset`."""
    segments = log.segments
    delete_segments(log, segments.take_from(0), now_ms)
    segments.add(segments.create_segment(offset, log.config, now_ms))
    log.start_moved(offset)
    log.end_moved(offset)
    log.epochs.clear()
    for snapshot in sorted(log.snapshots.offsets):
        log.snapshots.remove(snapshot)
    log.replace_producers(PartitionProducers())
