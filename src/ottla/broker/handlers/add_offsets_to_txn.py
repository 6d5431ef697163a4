"""AddOffsetsToTxn (key 25), v0 to v4.

A transaction will commit a group's offsets: the group's partition of `__consumer_offsets` becomes
one of its partitions. Clients of transaction version 2 leave this to TxnOffsetCommit v5.

v2  PRODUCER_FENCED
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.coordinator.keys import OFFSETS_TOPIC, partition_for
from ottla.coordinator.transactions.outcome import Result
from ottla.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_FROM: Final = 2


def handle(
    ctx: Context, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    broker, answer = ctx.broker, Answer[Result]()
    partition = partition_for(request.group_id, broker.groups.coordinator.partition_count)
    outcome = broker.transactions.coordinator.add_partitions(
        request.transactional_id,
        [(OFFSETS_TOPIC, partition)],
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        client_version=0,
        token=answer,
        now_ms=ctx.now_ms,
    )
    broker.transactions.carry_out(outcome, ctx.now_ms)
    return then(answer.result(), lambda result: _response(ctx, result))


def _response(ctx: Context, result: Result) -> AddOffsetsToTxnResponse:
    code = result.code
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
