"""DeleteShareGroupState (key 86), v0 (KIP-932).

A group coordinator tells the share coordinator that a share-partition is not read any more.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.coordinator.share.records import StateKey
from ottla.errors import KafkaError
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(ctx: Context, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        [
            DeleteStateResult(
                topic.topic_id,
                [
                    _delete(ctx, StateKey(request.group_id, topic.topic_id, each.partition))
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(ctx: Context, key: StateKey) -> PartitionResult:
    shares = ctx.broker.shares
    try:
        shares.check(key)
        shares.states.delete(key, ctx.now_ms)
    except KafkaError as error:
        return PartitionResult(key.partition, error.code, error.message or None)
    shares.forget(key)
    return PartitionResult(key.partition)
