"""ShareGroupHeartbeat (key 76), v1 (KIP-932).

A member reports its subscription and gets its assignment: partitions, which it may share with
others. Epoch 0 joins, -1 leaves.

Partitions need a state before they are assigned, so this API creates `__share_group_state` when the
first member joins. Kafka initializes states after the response and assigns with the next heartbeat;
here the response waits for the states, so that a member gets its partitions at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.group_records import StatePartitions
from ottla.coordinator.share.group_requests import heartbeat, missing_states
from ottla.coordinator.share.heartbeat import JOIN_EPOCH, ShareHeartbeat
from ottla.coordinator.share.state_records import STATE_TOPIC, UNKNOWN, SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

InitializedStates = dict[bytes, StatePartitions]  # partitions that now have a state, by topic id


def handle(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    if request.member_epoch == JOIN_EPOCH and STATE_TOPIC not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request)
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    try:
        await ctx.broker.auto_create(STATE_TOPIC)
    except KafkaError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ShareGroupHeartbeatResponse(error_code=code, error_message=error.message)
    result = _answer(ctx, request)
    return result if isinstance(result, ShareGroupHeartbeatResponse) else await result


def _answer(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    answer = Promise[ShareGroupHeartbeatResponse]()
    _initialize(ctx, request).then(lambda made: _heartbeat(ctx, request, made, answer))
    return answer.result()


def _heartbeat(
    ctx: RequestContext,
    request: ShareGroupHeartbeatRequest,
    initialized: InitializedStates,
    answer: Promise[ShareGroupHeartbeatResponse],
) -> None:
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    beat = ShareHeartbeat(
        request,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",
        config=ctx.broker.shares.settings(request.group_id).group,
        initialized=initialized,
    )
    groups.carry_out(heartbeat(groups.coordinator, beat, token=answer, now_ms=now_ms), now_ms)


def _initialize(
    ctx: RequestContext, request: ShareGroupHeartbeatRequest
) -> Promise[InitializedStates]:
    """Initialize the states that this heartbeat needs; the next one retries what fails."""
    epoch, missing = missing_states(ctx.broker.groups.coordinator, request)
    keys = [
        SharePartitionKey(request.group_id, topic_id, index)
        for topic_id, topic in missing.items()
        for index in topic.partitions
    ]
    persister = ctx.broker.shares.persister
    initialized = all_of(
        [
            persister.initialize(key, state_epoch=epoch, start_offset=UNKNOWN, now_ms=ctx.now_ms)
            for key in keys
        ]
    )
    return initialized.then(lambda found: _initialized(ctx, keys, found, missing))


def _initialized(
    ctx: RequestContext,
    keys: list[SharePartitionKey],
    found: list[StateResult],
    missing: Mapping[bytes, StatePartitions],
) -> InitializedStates:
    done: dict[bytes, list[int]] = {}
    for key, state in zip(keys, found, strict=True):
        if not isinstance(state, KafkaError):
            ctx.broker.shares.forget(key)
            done.setdefault(key.topic_id, []).append(key.partition)
    return {
        topic_id: StatePartitions(missing[topic_id].name, tuple(indexes))
        for topic_id, indexes in done.items()
    }
