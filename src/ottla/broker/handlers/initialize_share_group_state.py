"""InitializeShareGroupState (key 83), v0 (KIP-932).

A group coordinator tells the share coordinator from where on a share-partition is read.
"""

from __future__ import annotations

from ottla.broker.context import Context
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
) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        [
            InitializeStateResult(
                topic.topic_id,
                [
                    _initialize(
                        ctx, StateKey(request.group_id, topic.topic_id, each.partition), each
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _initialize(ctx: Context, key: StateKey, asked: PartitionData) -> PartitionResult:
    shares = ctx.broker.shares
    try:
        shares.check(key)
        shares.states.initialize(
            key,
            state_epoch=asked.state_epoch,
            start_offset=asked.start_offset,
            now_ms=ctx.now_ms,
        )
    except KafkaError as error:
        return PartitionResult(key.partition, error.code, error.message or None)
    shares.forget(key)
    return PartitionResult(key.partition)
