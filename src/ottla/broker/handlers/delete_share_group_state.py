"""DeleteShareGroupState (key 86), v0 (KIP-932).

A group coordinator tells the share coordinator that a share-partition is not read any more.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.share_serving import checked, for_each
from ottla.broker.share_states import Found
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(
    ctx: Context, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    topics = for_each(request.group_id, request.topics, lambda key, _: _delete(ctx, key))
    return then(
        topics.result(),
        lambda results: DeleteShareGroupStateResponse(
            [DeleteStateResult(*each) for each in results]
        ),
    )


def _delete(ctx: Context, key: StateKey) -> Answer[PartitionResult]:
    shares = ctx.broker.shares

    def result(found: Found) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)
        return PartitionResult(key.partition)

    return checked(ctx, key, lambda: shares.states.delete(key, ctx.now_ms)).map(result)
