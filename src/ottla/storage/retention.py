"""Which segments retention deletes: always the oldest ones, and whole segments.

    start offset    segments wholly below the log's start offset, under any policy
    size            segments without which the log still has retention.bytes; policy `delete` only
    time            segments whose largest timestamp is older than retention.ms; `delete` only

Nothing at or above the high watermark is deleted, so that the log never starts above it. The active
segment is deleted too, once it has records; the log rolls to a new one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.log_config import DELETE

if TYPE_CHECKING:
    from ottla.storage.log import Log


def count_past_retention(log: Log, now_ms: int, high_watermark: int) -> int:
    """How many of the first segments to delete."""
    config = log.config
    deletes = DELETE in config.cleanup_policy
    size_max = config.retention_bytes if deletes else -1
    age_max = config.retention_ms if deletes else -1
    size = log.size
    segments = log.segments
    count = 0
    for slot, segment in enumerate(segments):
        last = slot + 1 == len(segments)
        end_offset = segments.end_of(slot, log.end_offset)
        if end_offset > high_watermark or (last and not segment.size):
            break
        below_start = not last and end_offset <= log.start_offset
        too_much = size_max >= 0 and size - segment.size >= size_max
        if not (below_start or too_much) and (
            age_max < 0 or now_ms - segment.retention_timestamp() <= age_max
        ):
            break
        size -= segment.size
        count += 1
    return count
