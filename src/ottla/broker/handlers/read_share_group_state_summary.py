"""ReadShareGroupStateSummary (key 87), v0 to v1 (KIP-932).

A group coordinator asks how far a share group has come, without the states of single records.

v1  how many records are done with (KIP-1226)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.share_serving import checked, for_each
from ottla.broker.share_states import Found
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(
    ctx: Context, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    topics = for_each(request.group_id, request.topics, lambda key, _: _summary(ctx, key))
    return then(
        topics.result(),
        lambda results: ReadShareGroupStateSummaryResponse(
            [ReadStateSummaryResult(*each) for each in results]
        ),
    )


def _summary(ctx: Context, key: StateKey) -> Answer[PartitionResult]:
    states = ctx.broker.shares.states
    found = checked(ctx, key, lambda: states.summary(key, ctx.now_ms))
    return found.map(lambda state: _result(key, state))


def _result(key: StateKey, found: Found) -> PartitionResult:
    if isinstance(found, KafkaError):
        return PartitionResult(key.partition, found.code, found.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
    )
