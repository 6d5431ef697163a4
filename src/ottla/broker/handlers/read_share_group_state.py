"""ReadShareGroupState (key 84), v0 (KIP-932).

The leader of a partition asks what is kept of it for a share group. From then on, leaders with an
older epoch are refused.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError
from ottla.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)


def handle(ctx: Context, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        [
            ReadStateResult(
                topic.topic_id,
                [
                    _read(
                        ctx,
                        StateKey(request.group_id, topic.topic_id, each.partition),
                        each.leader_epoch,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _read(ctx: Context, key: StateKey, leader_epoch: int) -> PartitionResult:
    shares = ctx.broker.shares
    try:
        shares.check(key)
        state = shares.states.read(key, leader_epoch=leader_epoch, now_ms=ctx.now_ms)
    except KafkaError as error:
        return PartitionResult(key.partition, error.code, error.message or None)
    return PartitionResult(
        partition=key.partition,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[StateBatch(*batch) for batch in state.batches],
    )
