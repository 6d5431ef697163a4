"""AlterShareGroupOffsets (key 91), v0 (KIP-932).

Sets the start offsets of a share group that has no members; a group that does not exist is created.
The states of records in those partitions are discarded. The state epoch is raised, which fences a
leader that still holds the old state.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_service import StateResult
from ottla.broker.share.group_changes import record_group_change, set_error
from ottla.broker.share.partitions import Refusal
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_records import StatePartitions
from ottla.coordinator.share.group_requests import alterable_share_group
from ottla.coordinator.share.state_records import STATE_TOPIC, SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def handle(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    if STATE_TOPIC not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request)
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Create the topic for share group states first: no share group has been used yet."""
    try:
        await ctx.broker.auto_create(STATE_TOPIC)
    except KafkaError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=error.message)
    result = _answer(ctx, request)
    return result if isinstance(result, AlterShareGroupOffsetsResponse) else await result


def _answer(
    ctx: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse | Awaitable[AlterShareGroupOffsetsResponse]:
    groups = ctx.broker.groups
    try:
        group = alterable_share_group(groups.coordinator, request.group_id)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = AlterShareGroupOffsetsResponse()
    changes: list[Promise[Refusal]] = []
    for topic in request.topics:
        response.responses.append(_alter(ctx, group, topic, changes))
    answer = Promise[AlterShareGroupOffsetsResponse]()
    all_of(changes).then(lambda _: _record(ctx, group, response, answer))
    return answer.result()


def _record(
    ctx: RequestContext,
    group: ShareGroup,
    response: AlterShareGroupOffsetsResponse,
    answer: Promise[AlterShareGroupOffsetsResponse],
) -> None:
    """Record in the group which partitions have a state."""
    initialized = {}
    for topic in response.responses:
        done = [
            partition.partition_index for partition in topic.partitions if not partition.error_code
        ]
        if done:
            initialized[topic.topic_id] = StatePartitions(topic.topic_name, tuple(done))
    if not initialized:
        answer.resolve(response)
        return
    record_group_change(
        ctx,
        group,
        lambda event: group.initialize(initialized, event),
        answer,
        response=response,
        refused=lambda code: AlterShareGroupOffsetsResponse(error_code=code),
    )


def _alter(
    ctx: RequestContext,
    group: ShareGroup,
    requested: AlterShareGroupOffsetsRequestTopic,
    changes: list[Promise[Refusal]],
) -> AlterShareGroupOffsetsResponseTopic:
    topic = ctx.broker.image.topics.get(requested.topic_name)
    answered = AlterShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
    if topic is not None:
        answered.topic_id = topic.id
    for partition in requested.partitions:
        index = partition.partition_index
        answer = AlterShareGroupOffsetsResponsePartition(partition_index=index)
        answered.partitions.append(answer)
        if topic is None or not 0 <= index < len(topic.partitions):
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = "This server does not host this topic-partition."
            continue
        key = SharePartitionKey(group.group_id, topic.id, index)
        done = _set_start_offset(ctx, group, key, partition.start_offset)
        done.then(partial(set_error, answer))
        changes.append(done)
    return answered


def _set_start_offset(
    ctx: RequestContext, group: ShareGroup, key: SharePartitionKey, start_offset: int
) -> Promise[Refusal]:
    shares, done = ctx.broker.shares, Promise[Refusal]()

    def initialized(found: StateResult) -> None:
        if not isinstance(found, KafkaError):
            shares.forget(key)
        done.resolve(found if isinstance(found, KafkaError) else None)

    def known(found: StateResult) -> None:
        if isinstance(found, KafkaError):
            done.resolve(found)
            return
        state_epoch = max(found.state_epoch + 1, group.epoch)
        shares.persister.initialize(
            key, state_epoch=state_epoch, start_offset=start_offset, now_ms=ctx.now_ms
        ).then(initialized)

    shares.persister.summary(key, ctx.now_ms).then(known)
    return done
