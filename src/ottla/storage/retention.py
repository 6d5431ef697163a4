"""Which segments a log may drop. Always the oldest ones, and whole segments.

    start offset   wholly below the log's start (DeleteRecords moved it): under any policy
    size           as many as leave the log with at least retention.bytes: policy `delete` only
    time           whose largest timestamp is older than retention.ms: policy `delete` only

Nothing at or above the high watermark goes. The active segment may go too, once it has records: the
log rolls to a new one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.log_config import DELETE

if TYPE_CHECKING:
    from ottla.storage.log import Log


def expired(log: Log, now_ms: int, high_watermark: int) -> int:
    """How many of the first segments are to go."""
    config = log.config
    count = 0
    excess = log.size - config.retention_bytes if config.retention_bytes >= 0 else -1
    deletes = DELETE in config.cleanup_policy
    segments = log.segments
    for slot, segment in enumerate(segments):
        last = slot + 1 == len(segments)
        end_offset = log.end_offset if last else segments[slot + 1].base_offset
        if end_offset > high_watermark or (last and not segment.size):
            break
        if not last and end_offset <= log.start_offset:
            excess -= segment.size
            count += 1
        elif deletes and 0 <= excess - segment.size:
            excess -= segment.size
            count += 1
        elif (
            deletes
            and config.retention_ms >= 0
            and now_ms - segment.retention_timestamp() > config.retention_ms
        ):
            excess -= segment.size
            count += 1
        else:
            break
    return count
