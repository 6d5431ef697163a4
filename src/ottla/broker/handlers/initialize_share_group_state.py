"""InitializeShareGroupState (key 83), v0 (KIP-932).

A group coordinator tells the share coordinator the start offset of a share-partition.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_requests import authorized_state, serve_coordinator_requests
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import KafkaError
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


def handle(
    ctx: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    topics = serve_coordinator_requests(
        request.group_id, request.topics, lambda key, requested: _initialize(ctx, key, requested)
    )
    return topics.then(
        lambda results: InitializeShareGroupStateResponse(
            [InitializeStateResult(*result) for result in results]
        )
    ).result()


def _initialize(
    ctx: RequestContext, key: SharePartitionKey, requested: PartitionData
) -> Promise[PartitionResult]:
    shares = ctx.broker.shares

    def ask() -> Promise[StateResult]:
        return shares.states.initialize(
            key,
            state_epoch=requested.state_epoch,
            start_offset=requested.start_offset,
            now_ms=ctx.now_ms,
        )

    def result(found: StateResult) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)
        return PartitionResult(key.partition)

    return authorized_state(ctx, key, ask).then(result)
