"""AddOffsetsToTxn (key 25), v0 to v4 (KIP-98).

Adds a group's partition of `__consumer_offsets` to a transaction that will commit the group's
offsets. Clients of transaction version 2 leave this to TxnOffsetCommit v5.

v2  PRODUCER_FENCED
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.transactions.result import TransactionResult
from ottla.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_FROM: Final = 2


def handle(
    ctx: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    broker, answer = ctx.broker, Promise[TransactionResult]()
    partition = broker.groups.coordinator.partition_of(request.group_id)
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
    return answer.then(lambda result: _response(ctx, result)).result()


def _response(ctx: RequestContext, result: TransactionResult) -> AddOffsetsToTxnResponse:
    code = result.code
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
