"""WriteShareGroupState (key 85), v0 to v1 (KIP-932).

The leader of a partition stores what members of a share group did to its records.

v1  how many records are done with (KIP-1226)
"""

from __future__ import annotations

from ottla.broker.context import Context
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


def handle(ctx: Context, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        [
            WriteStateResult(
                topic.topic_id,
                [
                    _write(ctx, StateKey(request.group_id, topic.topic_id, each.partition), each)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _write(ctx: Context, key: StateKey, asked: PartitionData) -> PartitionResult:
    shares = ctx.broker.shares
    try:
        shares.check(key)
        write = StateWrite(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            _batches(asked),
        )
        shares.states.write(key, write, ctx.now_ms)
    except KafkaError as error:
        return PartitionResult(key.partition, error.code, error.message or None)
    shares.forget(key)  # whoever wrote this leads the partition, and that was not us
    return PartitionResult(key.partition)


def _batches(asked: PartitionData) -> tuple[StateBatch, ...]:
    batches = []
    for each in asked.state_batches:
        if each.first_offset > each.last_offset or each.delivery_state not in STORABLE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{each} cannot be stored")
        state = RecordState(each.delivery_state)
        batches.append(StateBatch(each.first_offset, each.last_offset, state, each.delivery_count))
    return tuple(batches)
