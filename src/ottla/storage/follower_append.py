"""A follower's append: the leader's batches unchanged, with their offsets and gaps.

A compacted log has gaps within batches and between them; a follower's log has the same gaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CONTROL_BIT, AppendOrigin, BatchHeader, check_batches
from ottla.records.control import read_marker
from ottla.storage.log_append_info import LogAppendInfo
from ottla.storage.log_segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from ottla.storage.log import Log


def append_as_follower(log: Log, data: memoryview, now_ms: int) -> LogAppendInfo:
    """Append the leader's batches with the offsets and epochs they have.

    Leaves out a torn last batch, and batches too far from the first one to share a segment with
    it: the next fetch brings them again.
    """
    if log.dir.offline:
        raise log.dir.offline_error()
    headers = _near(check_batches(data, batch_size_max=0, origin=AppendOrigin.LEADER))
    if not headers:
        end = log.end_offset
        return LogAppendInfo(end, end - 1, -1, log.start_offset, False, 0, 0)
    # Sequences and epochs of producers are not checked: the leader has accepted these batches, and
    # a follower that refused one could never catch up.
    next_offset = _check_followed(log, data, headers)
    first, last = headers[0], headers[-1]
    size = last.position + last.size
    max_timestamp = max(header.max_timestamp for header in headers)
    segment = log.roll_if_due(size, max_timestamp, first.base_offset, last.last_offset, now_ms)
    try:
        segment.append(data[:size], headers)
    except OSError as error:
        raise log.failed(error, "append") from error
    # In the log: from here on nothing may refuse it. The high watermark moves later, by what the
    # leader says in the same response (`Partition.follow_offsets`).
    log.extended(next_offset, size)
    # From the batches, not from the fetch: one fetch can span several leaders' epochs.
    for header in headers:
        if header.leader_epoch != log.epochs.latest:
            log.epochs.assign(header.leader_epoch, header.base_offset)
    log.update_producers(data, headers)
    if next_offset - log.recovery_point >= log.config.flush_messages:
        log.flush(now_ms)
    return LogAppendInfo(
        first.base_offset,
        last.last_offset,
        -1,
        log.start_offset,
        False,
        sum(header.record_count for header in headers),
        size,
    )


def _check_followed(log: Log, data: memoryview, headers: list[BatchHeader]) -> int:
    """The offset after the leader's batches; KafkaError if they do not follow the log's end."""
    next_offset = log.end_offset
    for header in headers:
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.name}: offset {header.base_offset} of the leader is not after "
                f"{next_offset - 1}",
            )
        if header.producer_id >= 0 and header.attributes & CONTROL_BIT:
            read_marker(data, header)  # raises now: after the write it would be too late
        next_offset = header.next_offset
    return next_offset


def _near(headers: list[BatchHeader]) -> list[BatchHeader]:
    """The batches whose offsets fit the index of a segment that begins with the first of them."""
    limit = headers[0].base_offset + RELATIVE_OFFSET_MAX if headers else 0
    for count, header in enumerate(headers):
        if header.last_offset > limit:
            return headers[:count]
    return headers
