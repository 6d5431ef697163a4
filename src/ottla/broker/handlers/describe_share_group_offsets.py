"""DescribeShareGroupOffsets (key 90), v0 to v1 (KIP-932).

Where share groups are in the partitions that they read: everything before the start offset is
done. -1: a group that has not begun with a partition.

v1  lag (KIP-1226): records that are not done with
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.broker.context import Context
from ottla.coordinator.share.coordination import share_group
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.records import UNKNOWN, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)


def handle(
    ctx: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_group(ctx, each) for each in request.groups])


def _group(
    ctx: Context, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        group = share_group(ctx.broker.groups.coordinator, asked.group_id)
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return _nothing(asked)
        return DescribeShareGroupOffsetsResponseGroup(
            asked.group_id, error_code=error.code, error_message=error.message or None
        )
    wanted: Mapping[str, Sequence[int]]
    if asked.topics is None:
        wanted = {topic.name: topic.partitions for topic in group.initialized.values()}
    else:
        wanted = {topic.topic_name: topic.partitions for topic in asked.topics}
    topics = [_topic(ctx, group, name, indexes) for name, indexes in wanted.items()]
    return DescribeShareGroupOffsetsResponseGroup(asked.group_id, topics)


def _nothing(
    asked: DescribeShareGroupOffsetsRequestGroup,
) -> DescribeShareGroupOffsetsResponseGroup:
    """A group that nobody knows has begun with nothing; that is no error."""
    topics = [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=index, start_offset=UNKNOWN
                )
                for index in topic.partitions
            ],
        )
        for topic in asked.topics or ()
    ]
    return DescribeShareGroupOffsetsResponseGroup(asked.group_id, topics)


def _topic(
    ctx: Context, group: ShareGroup, name: str, indexes: Sequence[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = ctx.broker.image.topics.get(name)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partitions = [
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=UNKNOWN, error_code=unknown
            )
            for index in indexes
        ]
        return DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=partitions)
    partitions = [
        _partition(ctx, name, StateKey(group.group_id, topic.id, index)) for index in indexes
    ]
    return DescribeShareGroupOffsetsResponseTopic(name, topic.id, partitions)


def _partition(
    ctx: Context, name: str, key: StateKey
) -> DescribeShareGroupOffsetsResponsePartition:
    try:
        state = ctx.broker.shares.states.summary(key, ctx.now_ms)
        end = ctx.broker.partitions.find(name, key.partition).high_watermark
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition,
            start_offset=UNKNOWN,
            error_code=error.code,
            error_message=error.message or None,
        )
    lag = -1
    if state.start_offset != UNKNOWN and state.delivery_complete_count != UNKNOWN:
        lag = max(end - state.start_offset - state.delivery_complete_count, 0)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition,
        start_offset=state.start_offset,
        leader_epoch=state.leader_epoch,
        lag=lag,
    )
