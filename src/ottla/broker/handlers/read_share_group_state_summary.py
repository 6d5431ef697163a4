"""ReadShareGroupStateSummary (key 87), v0 to v1 (KIP-932).

A group coordinator reads the start offset of a share-partition, without the states of records.

v1  delivery complete count (KIP-1226)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_requests import authorized_state, serve_coordinator_requests
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import KafkaError
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(
    ctx: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    topics = serve_coordinator_requests(
        request.group_id, request.topics, lambda key, _: _summary(ctx, key)
    )
    return topics.then(
        lambda results: ReadShareGroupStateSummaryResponse(
            [ReadStateSummaryResult(*result) for result in results]
        )
    ).result()


def _summary(ctx: RequestContext, key: SharePartitionKey) -> Promise[PartitionResult]:
    states = ctx.broker.shares.states
    found = authorized_state(ctx, key, lambda: states.summary(key, ctx.now_ms))
    return found.then(lambda state: _result(key, state))


def _result(key: SharePartitionKey, found: StateResult) -> PartitionResult:
    if isinstance(found, KafkaError):
        return PartitionResult(key.partition, found.code, found.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
    )
