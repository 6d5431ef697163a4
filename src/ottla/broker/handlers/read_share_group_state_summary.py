"""ReadShareGroupStateSummary (key 87), v0 to v1 (KIP-932).

A group coordinator asks how far a share group has come, without the states of single records.

v1  how many records are done with (KIP-1226)
"""

from __future__ import annotations

from ottla.broker.context import Context
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
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        [
            ReadStateSummaryResult(
                topic.topic_id,
                [
                    _summary(ctx, StateKey(request.group_id, topic.topic_id, each.partition))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _summary(ctx: Context, key: StateKey) -> PartitionResult:
    try:
        ctx.broker.shares.check(key)
        state = ctx.broker.shares.states.summary(key, ctx.now_ms)
    except KafkaError as error:
        return PartitionResult(key.partition, error.code, error.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
