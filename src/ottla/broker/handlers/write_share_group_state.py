"""WriteShareGroupState (key 85), v0 to v1 (KIP-932).

The leader of a partition stores what members of a share group did to its records.

v1  how many records are done with (KIP-1226)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.broker.share_serving import checked, for_each
from ottla.broker.share_states import Found
from ottla.coordinator.share.persister import StateWrite
from ottla.coordinator.share.records import StateKey
from ottla.coordinator.share.states import STORABLE, RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(
    ctx: Context, request: WriteShareGroupStateRequest
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    topics = for_each(request.group_id, request.topics, lambda key, asked: _write(ctx, key, asked))
    return then(
        topics.result(),
        lambda results: WriteShareGroupStateResponse([WriteStateResult(*each) for each in results]),
    )


def _write(ctx: Context, key: StateKey, asked: PartitionData) -> Answer[PartitionResult]:
    shares = ctx.broker.shares

    def ask() -> Answer[Found]:
        write = StateWrite(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            _batches(asked),
        )
        return shares.states.write(key, write, ctx.now_ms)

    def result(found: Found) -> PartitionResult:
        if isinstance(found, KafkaError):
            return PartitionResult(key.partition, found.code, found.message or None)
        shares.forget(key)  # whoever wrote this leads the partition, and that was not us
        return PartitionResult(key.partition)

    return checked(ctx, key, ask).map(result)


def _batches(asked: PartitionData) -> tuple[StateBatch, ...]:
    batches = []
    for each in asked.state_batches:
        if each.first_offset > each.last_offset or each.delivery_state not in STORABLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{each} cannot be stored")
        state = RecordState(each.delivery_state)
        batches.append(StateBatch(each.first_offset, each.last_offset, state, each.delivery_count))
    return tuple(batches)
