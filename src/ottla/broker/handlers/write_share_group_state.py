"""WriteShareGroupState (key 85), v0 to v1 (KIP-932).

The leader of a partition stores the states of its records for a share group.

v1  delivery complete count (KIP-1226)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_requests import authorized_state, serve_coordinator_requests
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.record_state import STORABLE, RecordState, StateBatch
from ottla.coordinator.share.shard import SharePartitionWrite
from ottla.coordinator.share.state_records import SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(
    ctx: RequestContext, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    topics = serve_coordinator_requests(
        request.group_id, request.topics, lambda key, requested: _write(ctx, key, requested)
    )
    return topics.then(
        lambda results: WriteShareGroupStateResponse(
            [WriteStateResult(*result) for result in results]
        )
    ).result()


def _write(
    ctx: RequestContext, key: SharePartitionKey, requested: PartitionData
) -> Promise[PartitionResult]:
    shares = ctx.broker.shares

    def ask() -> Promise[StateResult]:
        write = SharePartitionWrite(
            requested.state_epoch,
            requested.leader_epoch,
            requested.start_offset,
            requested.delivery_complete_count,
            _batches(requested),
        )
        return shares.states.write(key, write, ctx.now_ms)

    def result(found: StateResult) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)  # the writer leads the partition, so this broker does not
        return PartitionResult(key.partition)

    return authorized_state(ctx, key, ask).then(result)


def _batches(requested: PartitionData) -> tuple[StateBatch, ...]:
    batches = []
    for batch in requested.state_batches:
        if batch.first_offset > batch.last_offset or batch.delivery_state not in STORABLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{batch} cannot be stored")
        state = RecordState(batch.delivery_state)
        batches.append(
            StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count)
        )
    return tuple(batches)
