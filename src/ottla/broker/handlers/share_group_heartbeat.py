"""ShareGroupHeartbeat (key 76), v1 (KIP-932).

A member says what it wants to read and is told what it shall: partitions, which it may share with
others. Epoch 0 joins, -1 leaves.

Partitions get a state before they are assigned, so this API creates `__share_group_state` when the
first member comes. Kafka initializes states after it has answered, and assigns with the next
heartbeat; as the state is kept by this very broker, a member gets its partitions at once here.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.coordinator.share.coordination import heartbeat, missing_states
from ottla.coordinator.share.keys import StatePartitions
from ottla.coordinator.share.records import STATE_TOPIC, UNKNOWN, StateKey
from ottla.coordinator.share.requests import JOINS, Beat
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def handle(
    ctx: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    if request.member_epoch == JOINS and STATE_TOPIC not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request)
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    try:
        await ctx.broker.auto_create(STATE_TOPIC)
    except KafkaError as error:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ShareGroupHeartbeatResponse(error_code=code, error_message=error.message)
    result = _answer(ctx, request)
    return result if isinstance(result, ShareGroupHeartbeatResponse) else await result


def _answer(
    ctx: Context, request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    groups, answer = ctx.broker.groups, Answer[ShareGroupHeartbeatResponse]()
    beat = Beat(
        request,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",
        config=ctx.broker.shares.settings(request.group_id).group,
        initialized=_initialize(ctx, request),
    )
    outcome = heartbeat(groups.coordinator, beat, token=answer, now_ms=ctx.now_ms)
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()


def _initialize(ctx: Context, request: ShareGroupHeartbeatRequest) -> dict[bytes, StatePartitions]:
    """Make the states that this heartbeat needs; what fails is tried again with the next one."""
    epoch, missing = missing_states(ctx.broker.groups.coordinator, request)
    made = {}
    for topic_id, topic in missing.items():
        done = []
        for index in topic.partitions:
            key = StateKey(request.group_id, topic_id, index)
            try:
                ctx.broker.shares.states.initialize(
                    key, state_epoch=epoch, start_offset=UNKNOWN, now_ms=ctx.now_ms
                )
            except KafkaError:
                continue
            ctx.broker.shares.forget(key)
            done.append(index)
        if done:
            made[topic_id] = StatePartitions(topic.name, tuple(done))
    return made
