"""OffsetForLeaderEpoch (key 23), v2 to v4.

Where an epoch of leadership ended in the log, so that a consumer or a follower can find out whether
what it read is still there (KIP-101, KIP-279, KIP-320).
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import KafkaError
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(ctx: Context, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(ctx, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(ctx: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = ctx.broker.partitions.find(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        partition.check_leads()
    except KafkaError as error:
        return EpochEndOffset(
            error_code=error.code, partition=asked.partition, leader_epoch=-1, end_offset=-1
        )
    epoch, end_offset = partition.epoch_end_offset(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
