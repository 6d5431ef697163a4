"""ReadShareGroupState (key 84), v0 (KIP-932).

The leader of a partition reads a share group's state of it from the share coordinator. From then
on, leaders with an older epoch are fenced.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_requests import authorized_state, serve_coordinator_requests
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import KafkaError
from ottla.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def handle(
    ctx: RequestContext, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    topics = serve_coordinator_requests(
        request.group_id, request.topics, lambda key, requested: _read(ctx, key, requested)
    )
    return topics.then(
        lambda results: ReadShareGroupStateResponse(
            [ReadStateResult(*result) for result in results]
        )
    ).result()


def _read(
    ctx: RequestContext, key: SharePartitionKey, requested: PartitionData
) -> Promise[PartitionResult]:
    states = ctx.broker.shares.states

    def ask() -> Promise[StateResult]:
        return states.read(key, leader_epoch=requested.leader_epoch, now_ms=ctx.now_ms)

    return authorized_state(ctx, key, ask).then(lambda found: _result(key, found))


def _result(key: SharePartitionKey, found: StateResult) -> PartitionResult:
    if isinstance(found, KafkaError):
        return PartitionResult(key.partition, found.code, found.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        start_offset=found.start_offset,
        state_batches=[StateBatch(*batch) for batch in found.batches],
    )
