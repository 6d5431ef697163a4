"""InitializeShareGroupState (key 83), v0 (KIP-932).

A group coordinator tells the share coordinator from where on a share-partition is read.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.share_serving import checked, for_each
from ottla.broker.share_states import Found
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


def handle(
    ctx: Context, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    topics = for_each(
        request.group_id, request.topics, lambda key, asked: _initialize(ctx, key, asked)
    )
    return then(
        topics.result(),
        lambda results: InitializeShareGroupStateResponse(
            [InitializeStateResult(*each) for each in results]
        ),
    )


def _initialize(ctx: Context, key: StateKey, asked: PartitionData) -> Answer[PartitionResult]:
    shares = ctx.broker.shares

    def ask() -> Answer[Found]:
        return shares.states.initialize(
            key,
            state_epoch=asked.state_epoch,
            start_offset=asked.start_offset,
            now_ms=ctx.now_ms,
        )

    def result(found: Found) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)
        return PartitionResult(key.partition)

    return checked(ctx, key, ask).map(result)
