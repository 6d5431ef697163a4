"""DeleteShareGroupState (key 86), v0 (KIP-932).

A group coordinator asks the share coordinator to delete the state of share-partitions that the
group no longer reads.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_requests import authorized_state, serve_coordinator_requests
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import KafkaError
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(
    ctx: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    topics = serve_coordinator_requests(
        request.group_id, request.topics, lambda key, _: _delete(ctx, key)
    )
    return topics.then(
        lambda results: DeleteShareGroupStateResponse(
            [DeleteStateResult(*result) for result in results]
        )
    ).result()


def _delete(ctx: RequestContext, key: SharePartitionKey) -> Promise[PartitionResult]:
    shares = ctx.broker.shares

    def result(found: StateResult) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)
        return PartitionResult(key.partition)

    return authorized_state(ctx, key, lambda: shares.states.delete(key, ctx.now_ms)).then(result)
