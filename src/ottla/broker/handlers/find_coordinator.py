"""FindCoordinator (key 10), v0 to v6.

Returns the broker that coordinates a group, a transactional id, or a share-partition: the leader of
the partition of `__consumer_offsets`, `__transaction_state` or `__share_group_state` that the key
hashes to. The topic is created when the first client asks.

v1  key type        v4  several keys (KIP-699)        v6  share-partitions (KIP-932)
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any, Final

from ottla.broker.request_context import RequestContext
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.share.state_records import STATE_TOPIC, is_share_partition_key
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
SEVERAL_KEYS_FROM: Final = 4

# A coordinator leads a partition of the topic in which it stores its state.
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: STATE_TOPIC}


def handle(
    ctx: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is not None and topic not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request, topic)
    if ctx.broker.failure_detector.has_suspects:
        return _answer_after_election(ctx, request)
    return _answer(ctx, request)


async def _answer_after_election(
    ctx: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Wait a moment for an election if the partition's leader is dead."""
    keys = _keys(ctx, request)
    with contextlib.suppress(KafkaError):
        await ctx.broker.failure_detector.wait_until_settled(
            lambda: {_leader(ctx, request.key_type, key) for key in keys}
        )
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: RequestContext, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    try:
        await ctx.broker.auto_create(topic)
    except KafkaError as error:
        return _response(ctx, [_not_available(key, error) for key in _keys(ctx, request)])
    return _answer(ctx, request)


def _answer(ctx: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    found = [_find(ctx, request.key_type, key) for key in _keys(ctx, request)]
    return _response(ctx, found)


def _keys(ctx: RequestContext, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if ctx.version >= SEVERAL_KEYS_FROM else [request.key]


def _find(ctx: RequestContext, key_type: int, key: str) -> Coordinator:
    try:
        leader = _leader(ctx, key_type, key)
        for broker, host, port in ctx.broker.endpoints(ctx.session.listener):
            if broker.id == leader:
                return Coordinator(key=key, node_id=leader, host=host, port=port)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    except KafkaError as error:
        return _not_available(key, error)


def _leader(ctx: RequestContext, key_type: int, key: str) -> int:
    topic = TOPICS.get(key_type)
    if topic is None:
        message = f"There are no coordinators of type {key_type} here."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if key_type == SHARE and not is_share_partition_key(key):
        message = f"{key} does not name a group, a topic id and a partition."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    found = ctx.broker.image.topics.get(topic)
    if found is None:  # another broker created the topic a moment ago
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return found.partitions[_coordinator(ctx, key_type).partition_of(key)].leader


def _coordinator(ctx: RequestContext, key_type: int) -> CoordinatorRuntime[Any]:
    if key_type == GROUP:
        return ctx.broker.groups.coordinator
    if key_type == TRANSACTION:
        return ctx.broker.transactions.coordinator
    return ctx.broker.shares.states.coordinator


def _not_available(key: str, error: KafkaError) -> Coordinator:
    code = error.code
    if code is not ErrorCode.INVALID_REQUEST:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients retry on this code
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=error.message or None
    )


def _response(ctx: RequestContext, found: list[Coordinator]) -> FindCoordinatorResponse:
    if ctx.version >= SEVERAL_KEYS_FROM:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
