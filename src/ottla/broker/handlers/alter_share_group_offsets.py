"""AlterShareGroupOffsets (key 91), v0 (KIP-932).

Sets where a share group begins to read, as long as it has no members; a group that nobody knows
comes to be. What was known of records in those partitions is forgotten; a leader that does not
know of it yet is fenced.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.coordinator.share.coordination import alterable_share_group, change
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.keys import StatePartitions
from ottla.coordinator.share.records import STATE_TOPIC, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def handle(
    ctx: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    if STATE_TOPIC not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request)
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """The first that anybody wants of share groups: their states need a topic."""
    try:
        await ctx.broker.auto_create(STATE_TOPIC)
    except KafkaError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=error.message)
    result = _answer(ctx, request)
    return result if isinstance(result, AlterShareGroupOffsetsResponse) else await result


def _answer(
    ctx: Context, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    groups = ctx.broker.groups
    try:
        group = alterable_share_group(groups.coordinator, request.group_id)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = AlterShareGroupOffsetsResponse()
    made: dict[bytes, StatePartitions] = {}
    for topic in request.topics:
        response.responses.append(_alter(ctx, group, topic, made))
    if not made:
        return response
    answer = Answer[AlterShareGroupOffsetsResponse]()
    outcome = change(
        groups.coordinator,
        group,
        lambda turn: group.initialize(made, turn),
        answer=(answer, response),
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()


def _alter(
    ctx: Context,
    group: ShareGroup,
    asked: AlterShareGroupOffsetsRequestTopic,
    made: dict[bytes, StatePartitions],
) -> AlterShareGroupOffsetsResponseTopic:
    topic = ctx.broker.image.topics.get(asked.topic_name)
    answered = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
    done = []
    if topic is not None:
        answered.topic_id = topic.id
    for partition in asked.partitions:
        index = partition.partition_index
        answer = AlterShareGroupOffsetsResponsePartition(partition_index=index)
        answered.partitions.append(answer)
        if topic is None or not 0 <= index < len(topic.partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = "This server does not host this topic-partition."
            continue
        key = StateKey(group.group_id, topic.id, index)
        try:
            _set(ctx, group, key, partition.start_offset)
        except KafkaError as error:
            answer.error_code = error.code
            answer.error_message = error.message or None
        else:
            done.append(index)
    if topic is not None and done:
        made[topic.id] = StatePartitions(topic.name, tuple(done))
    return answered


def _set(ctx: Context, group: ShareGroup, key: StateKey, start_offset: int) -> None:
    shares = ctx.broker.shares
    state_epoch = max(shares.states.summary(key, ctx.now_ms).state_epoch + 1, group.epoch)
    shares.states.initialize(
        key, state_epoch=state_epoch, start_offset=start_offset, now_ms=ctx.now_ms
    )
    shares.forget(key)
