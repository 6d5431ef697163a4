"""DescribeShareGroupOffsets (key 90), v0 to v1 (KIP-932).

Where share groups are in the partitions that they read: everything before the start offset is
done. -1: a group that has not begun with a partition.

v1  lag (KIP-1226): records that are not done with
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.broker.context import Context
from ottla.coordinator.share.coordination import share_group
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
from ottla.wire.primitives import ZERO_UUID


def handle(
    ctx: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_group(ctx, each) for each in request.groups])


def _group(
    ctx: Context, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        known = _known(ctx, asked.group_id)
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            asked.group_id, error_code=error.code, error_message=error.message or None
        )
    wanted: Mapping[str, Sequence[int]] = known
    if asked.topics is not None:
        wanted = {topic.topic_name: topic.partitions for topic in asked.topics}
    topics = [
        _topic(ctx, asked.group_id, name, indexes, known.get(name, ()))
        for name, indexes in wanted.items()
    ]
    return DescribeShareGroupOffsetsResponseGroup(asked.group_id, topics)


def _known(ctx: Context, group_id: str) -> Mapping[str, Sequence[int]]:
    """The partitions of which there are states. A group that nobody knows has none."""
    try:
        group = share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {topic.name: topic.partitions for topic in group.initialized.values()}


def _topic(
    ctx: Context, group_id: str, name: str, indexes: Sequence[int], known: Sequence[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = ctx.broker.image.topics.get(name)
    topic_id = ZERO_UUID if topic is None else topic.id
    return DescribeShareGroupOffsetsResponseTopic(
        name,
        topic_id,
        [
            _partition(ctx, name, StateKey(group_id, topic_id, index))
            if topic is not None and index in known
            else DescribeShareGroupOffsetsResponsePartition(index, start_offset=UNKNOWN)
            for index in indexes
        ],
    )


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
