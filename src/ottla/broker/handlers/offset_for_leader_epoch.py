"""OffsetForLeaderEpoch (key 23), v2 to v4.

Returns the end offset of a leader epoch, so that a consumer or a follower can detect that the log
was truncated (KIP-101, KIP-279, KIP-320).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(ctx, topic.topic, requested) for requested in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(ctx: RequestContext, topic: str, requested: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ctx.broker.partitions.find(topic, requested.partition)
        partition.check_epoch(requested.current_leader_epoch)
        partition.check_leads()
    except KafkaError as error:
        return EpochEndOffset(
            error_code=error.code, partition=requested.partition, leader_epoch=-1, end_offset=-1
        )
    epoch, end_offset = partition.epoch_end_offset(requested.leader_epoch)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end_offset)
