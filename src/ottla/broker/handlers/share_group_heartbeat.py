"""ShareGroupHeartbeat (key 76), v1 (KIP-932).

A member says what it wants to read and is told what it shall: partitions, which it may share with
others. Epoch 0 joins, -1 leaves.

Partitions get a state before they are assigned, so this API creates `__share_group_state` when the
first member comes. Kafka initializes states after it has answered, and assigns with the next
heartbeat; here the answer waits for the states, and a member gets its partitions at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.share_states import Found
from ottla.coordinator.share.coordination import heartbeat, missing_states
from ottla.coordinator.share.keys import StatePartitions
from ottla.coordinator.share.records import STATE_TOPIC, UNKNOWN, StateKey
from ottla.coordinator.share.requests import JOINS, Beat
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

Made = dict[bytes, StatePartitions]  # partitions that have a state now, by their topic's id


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
    answer = Answer[ShareGroupHeartbeatResponse]()
    _initialize(ctx, request).when(lambda made: _beat(ctx, request, made, answer))
    return answer.result()


def _beat(
    ctx: Context,
    request: ShareGroupHeartbeatRequest,
    initialized: Made,
    answer: Answer[ShareGroupHeartbeatResponse],
) -> None:
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    beat = Beat(
        request,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",
        config=ctx.broker.shares.settings(request.group_id).group,
        initialized=initialized,
    )
    groups.carry_out(heartbeat(groups.coordinator, beat, token=answer, now_ms=now_ms), now_ms)


def _initialize(ctx: Context, request: ShareGroupHeartbeatRequest) -> Answer[Made]:
    """Make the states that this heartbeat needs; what fails is tried again with the next one."""
    epoch, missing = missing_states(ctx.broker.groups.coordinator, request)
    keys = [
        StateKey(request.group_id, topic_id, index)
        for topic_id, topic in missing.items()
        for index in topic.partitions
    ]
    persister = ctx.broker.shares.persister
    made = Answer[Made]()
    all_of(
        [
            persister.initialize(key, state_epoch=epoch, start_offset=UNKNOWN, now_ms=ctx.now_ms)
            for key in keys
        ]
    ).when(lambda found: made.give(_made(ctx, keys, found, missing)))
    return made


def _made(
    ctx: Context,
    keys: list[StateKey],
    found: list[Found],
    missing: Mapping[bytes, StatePartitions],
) -> Made:
    done: dict[bytes, list[int]] = {}
    for key, state in zip(keys, found, strict=True):
        if not isinstance(state, KafkaError):
            ctx.broker.shares.forget(key)
            done.setdefault(key.topic_id, []).append(key.partition)
    return {
        topic_id: StatePartitions(missing[topic_id].name, tuple(indexes))
        for topic_id, indexes in done.items()
    }
