"""AlterShareGroupOffsets (key 91), v0 (KIP-932).

Sets where a share group begins to read, as long as it has no members; a group that nobody knows
comes to be. What was known of records in those partitions is forgotten; a leader that does not
know of it yet is fenced.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.share_group_changes import record, refuse
from ottla.broker.share_states import Found
from ottla.broker.shares import Refusal
from ottla.coordinator.share.coordination import alterable_share_group
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
    set_: list[Answer[Refusal]] = []
    for topic in request.topics:
        response.responses.append(_alter(ctx, group, topic, set_))
    answer = Answer[AlterShareGroupOffsetsResponse]()
    all_of(set_).when(lambda _: _record(ctx, group, response, answer))
    return answer.result()


def _record(
    ctx: Context,
    group: ShareGroup,
    response: AlterShareGroupOffsetsResponse,
    answer: Answer[AlterShareGroupOffsetsResponse],
) -> None:
    """The group remembers of which partitions there are states."""
    made = {}
    for topic in response.responses:
        done = [each.partition_index for each in topic.partitions if not each.error_code]
        if done:
            made[topic.topic_id] = StatePartitions(topic.topic_name, tuple(done))
    if not made:
        answer.give(response)
        return
    record(
        ctx,
        group,
        lambda turn: group.initialize(made, turn),
        answer,
        response=response,
        refused=lambda code: AlterShareGroupOffsetsResponse(error_code=code),
    )


def _alter(
    ctx: Context,
    group: ShareGroup,
    asked: AlterShareGroupOffsetsRequestTopic,
    set_: list[Answer[Refusal]],
) -> AlterShareGroupOffsetsResponseTopic:
    topic = ctx.broker.image.topics.get(asked.topic_name)
    answered = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
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
        done = _set(ctx, group, key, partition.start_offset)
        done.when(partial(refuse, answer))
        set_.append(done)
    return answered


def _set(ctx: Context, group: ShareGroup, key: StateKey, start_offset: int) -> Answer[Refusal]:
    shares, done = ctx.broker.shares, Answer[Refusal]()

    def initialized(found: Found) -> None:
        if not isinstance(found, KafkaError):
            shares.forget(key)
        done.give(found if isinstance(found, KafkaError) else None)

    def known(found: Found) -> None:
        if isinstance(found, KafkaError):
            done.give(found)
            return
        state_epoch = max(found.state_epoch + 1, group.epoch)
        shares.persister.initialize(
            key, state_epoch=state_epoch, start_offset=start_offset, now_ms=ctx.now_ms
        ).when(initialized)

    shares.persister.summary(key, ctx.now_ms).when(known)
    return done
