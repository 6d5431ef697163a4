"""FindCoordinator (key 10), v0 to v6.

Which broker coordinates a group, a transactional id, or a share-partition: the leader of the
partition that it falls into, of `__consumer_offsets`, `__transaction_state` or
`__share_group_state`. The topic is created when the first client asks.

v1  key type        v4  several keys (KIP-699)        v6  share-partitions (KIP-932)
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.coordinator.keys import OFFSETS_TOPIC, partition_for
from ottla.coordinator.share.records import STATE_TOPIC, is_state_key
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
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

# A coordinator leads a partition of the topic in which it keeps what it knows.
TOPICS: Final = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: STATE_TOPIC}


def handle(
    ctx: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is not None and topic not in ctx.broker.image.topics:
        return _create_and_answer(ctx, request, topic)
    if ctx.broker.lookout.has_doubts:
        return _answer_when_settled(ctx, request)
    return _answer(ctx, request)


async def _answer_when_settled(
    ctx: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """A broker may be dead, and nobody elected in its place: that takes a moment only."""
    keys = _keys(ctx, request)
    with contextlib.suppress(KafkaError):
        await ctx.broker.lookout.settle(
            lambda: {_leader(ctx, request.key_type, key) for key in keys}
        )
    return _answer(ctx, request)


async def _create_and_answer(
    ctx: Context, request: FindCoordinatorRequest, topic: str
) -> FindCoordinatorResponse:
    try:
        await ctx.broker.auto_create(topic)
    except KafkaError as error:
        return _response(ctx, [_nowhere(key, error) for key in _keys(ctx, request)])
    return _answer(ctx, request)


def _answer(ctx: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    found = [_find(ctx, request.key_type, key) for key in _keys(ctx, request)]
    return _response(ctx, found)


def _keys(ctx: Context, request: FindCoordinatorRequest) -> list[str]:
    return request.coordinator_keys if ctx.version >= SEVERAL_KEYS_FROM else [request.key]


def _find(ctx: Context, key_type: int, key: str) -> Coordinator:
    try:
        leader = _leader(ctx, key_type, key)
        for broker, host, port in ctx.broker.endpoints(ctx.session.listener):
            if broker.id == leader:
                return Coordinator(key=key, node_id=leader, host=host, port=port)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    except KafkaError as error:
        return _nowhere(key, error)


def _leader(ctx: Context, key_type: int, key: str) -> int:
    topic = TOPICS.get(key_type)
    if topic is None:
        message = f"There are no coordinators of type {key_type} here."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if key_type == SHARE and not is_state_key(key):
        message = f"{key} does not name a group, a topic id and a partition."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    found = ctx.broker.image.topics.get(topic)
    if found is None:  # made a moment ago, by another broker
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    partitions = found.partitions
    return partitions[partition_for(key, len(partitions))].leader


def _nowhere(key: str, error: KafkaError) -> Coordinator:
    code = error.code
    if code is not ErrorCode.INVALID_REQUEST:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE  # whatever it is, clients know to ask again
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=error.message or None
    )


def _response(ctx: Context, found: list[Coordinator]) -> FindCoordinatorResponse:
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
