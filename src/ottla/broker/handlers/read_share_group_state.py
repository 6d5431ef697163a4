"""ReadShareGroupState (key 84), v0 (KIP-932).

The leader of a partition asks what is kept of it for a share group. From then on, leaders with an
older epoch are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.share_serving import checked, for_each
from ottla.broker.share_states import Found
from ottla.coordinator.share.records import StateKey
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
    ctx: Context, request: ReadShareGroupStateRequest
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    topics = for_each(request.group_id, request.topics, lambda key, asked: _read(ctx, key, asked))
    return then(
        topics.result(),
        lambda results: ReadShareGroupStateResponse([ReadStateResult(*each) for each in results]),
    )


def _read(ctx: Context, key: StateKey, asked: PartitionData) -> Answer[PartitionResult]:
    states = ctx.broker.shares.states

    def ask() -> Answer[Found]:
        return states.read(key, leader_epoch=asked.leader_epoch, now_ms=ctx.now_ms)

    return checked(ctx, key, ask).map(lambda found: _result(key, found))


def _result(key: StateKey, found: Found) -> PartitionResult:
    if isinstance(found, KafkaError):
        return PartitionResult(key.partition, found.code, found.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        start_offset=found.start_offset,
        state_batches=[StateBatch(*batch) for batch in found.batches],
    )
