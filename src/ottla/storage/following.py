"""A follower's append: the leader's batches as they are, gaps and all.

A compacted log has gaps, inside of batches and between them, and a follower's has the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import CONTROL_BIT, BatchHeader, Origin, check_batches
from ottla.records.control import read_marker
from ottla.storage.appended import Appended
from ottla.storage.segment import RELATIVE_OFFSET_MAX

if TYPE_CHECKING:
    from ottla.storage.log import Log


def append(log: Log, data: memoryview, now_ms: int) -> Appended:
    """The leader's batches, with the offsets and epochs they have.

    A torn last one is left, and so are those too far behind the first to share a segment with
    it: they come again with the next fetch.
    """
    if log.dir.offline:
        raise log.dir.refusal()
    headers = _near(check_batches(data, batch_size_max=0, origin=Origin.LEADER))
    if not headers:
        end = log.end_offset
        return Appended(end, end - 1, -1, log.start_offset, False, 0, 0)
    next_offset = _check_followed(log, data, headers)
    first, last = headers[0], headers[-1]
    size = last.position + last.size
    max_timestamp = max(header.max_timestamp for header in headers)
    segment = log.roll_if_due(size, max_timestamp, first.base_offset, last.last_offset, now_ms)
    try:
        segment.append(data[:size], headers)
    except OSError as error:
        raise log.failed(error, "append") from error
    log.segments.size += size
    log.end_offset = next_offset
    for header in headers:
        if header.leader_epoch != log.epochs.latest:
            log.epochs.assign(header.leader_epoch, header.base_offset)
    log.remember_producers(data, headers)
    if next_offset - log.recovery_point >= log.config.flush_messages:
        log.flush(now_ms)
    return Appended(
        first.base_offset,
        last.last_offset,
        -1,
        log.start_offset,
        False,
        sum(header.record_count for header in headers),
        size,
    )


def _check_followed(log: Log, data: memoryview, headers: list[BatchHeader]) -> int:
    """The offset after the leader's batches; KafkaError if they cannot follow what is here."""
    next_offset = log.end_offset
    for header in headers:
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{log.name}: offset {header.base_offset} of the leader is not after "
                f"{next_offset - 1}",
            )
        if header.producer_id >= 0 and header.attributes & CONTROL_BIT:
            read_marker(data, header)  # one that cannot be read is refused before the write
        next_offset = header.next_offset
    return next_offset


def _near(headers: list[BatchHeader]) -> list[BatchHeader]:
    """Those whose offsets an index can hold, in a segment that begins with the first of them."""
    limit = headers[0].base_offset + RELATIVE_OFFSET_MAX if headers else 0
    for count, header in enumerate(headers):
        if header.last_offset > limit:
            return headers[:count]
    return headers
