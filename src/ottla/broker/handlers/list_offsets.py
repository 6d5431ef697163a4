"""ListOffsets (key 2), v1 to v11.

Finds offsets by timestamp. The special timestamps are: -1 the end (for read_committed the last
stable offset), -2 the start, -3 the record with the largest timestamp, -4 the start of the local
log, -5 the end of tiered storage, -6 the start of what is pending upload to it. There is no tiered
storage, so -4 is the start, and -5 and -6 return no offset.

v2  isolation level      v4  leader epoch (KIP-320)      v5  OFFSET_NOT_AVAILABLE (KIP-207)
v7  -3 (KIP-734)         v8  -4 (KIP-405)
v9  -5 (KIP-1005)        v11  -6 (KIP-1023)
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_COMMITTED, Partition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

DEBUGGING: Final = -2  # with this replica id any replica answers
NOT_AVAILABLE_FROM: Final = 5

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# The version in which each special timestamp appeared; an older request may not use it.
FROM_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    times = Counter(
        (topic.name, p.partition_index) for topic in request.topics for p in topic.partitions
    )
    topics = []
    for topic in request.topics:
        answers = []
        for requested in topic.partitions:
            try:
                if times[topic.name, requested.partition_index] > 1:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, "Duplicate partition in the request."
                    )
                _check_time(requested.timestamp, ctx.version)
                partition = ctx.broker.partitions.find(topic.name, requested.partition_index)
                partition.check_epoch(requested.current_leader_epoch)
                if request.replica_id != DEBUGGING:
                    partition.check_leads()
                answers.append(_answer(partition, requested, request, ctx.version))
            except KafkaError as error:
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=requested.partition_index,
                        error_code=error.code,
                        timestamp=-1,
                        offset=-1,
                        leader_epoch=-1,
                    )
                )
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _check_time(time: int, version: int) -> None:
    if version < FROM_VERSION.get(time, 0) or time < EARLIEST_PENDING_UPLOAD:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _answer(
    partition: Partition, requested: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> ListOffsetsPartitionResponse:
    if request.replica_id >= 0:  # a follower, which looks for the offset from where to fetch
        end = partition.log.end_offset
    else:
        committed = request.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if committed else partition.high_watermark
        if requested.timestamp == LATEST or requested.timestamp >= 0:
            _check_known(partition, version)
    timestamp, offset, epoch = _find(partition, requested.timestamp, end)
    return ListOffsetsPartitionResponse(
        partition_index=partition.index, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _check_known(partition: Partition, version: int) -> None:
    """KIP-207: a new leader does not know its predecessor's high watermark yet.

    An answer now could be lower than one that the predecessor has given.
    """
    followers = partition.followers
    if followers is None or partition.high_watermark >= followers.epoch_start:
        return
    if version < NOT_AVAILABLE_FROM:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition.name} was just elected a leader")


def _find(partition: Partition, time: int, end: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch), -1 where there is none."""
    log = partition.log
    if time == LATEST:
        return -1, end, partition.leader_epoch
    if time in (EARLIEST, EARLIEST_LOCAL):
        start = log.start_offset
        return -1, start, log.epoch_at(start)
    if time in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    if time == MAX_TIMESTAMP:
        found = log.max_timestamp(end_offset=end)
    else:
        found = log.offset_for_time(time, end_offset=end)
    if found is None:
        return -1, -1, -1
    offset, timestamp, epoch = found
    return timestamp, offset, epoch
