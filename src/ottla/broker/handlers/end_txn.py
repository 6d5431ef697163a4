"""EndTxn (key 26), v0 to v5.

Commits or aborts a transaction. The response is sent when the decision is stored; the markers are
written after that.

v2  PRODUCER_FENCED        v5  raises the epoch, and returns it (KIP-890)
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Final

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.coordinator.transactions.result import TransactionResult
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_FROM: Final = 2
EPOCH_BUMP_FROM: Final = 5


def handle(
    ctx: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    # A producer whose epochs are exhausted gets a new id at the end of its transaction.
    if not ctx.broker.producer_ids.at_hand:
        return _fill_and_end(ctx, request)
    return _end(ctx, request)


async def _fill_and_end(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    with contextlib.suppress(KafkaError):  # those few that need an id get a retriable error
        await ctx.broker.producer_ids.fill()
    ctx.now_ms = ctx.broker.clock.now_ms()
    answer = _end(ctx, request)
    return answer if isinstance(answer, EndTxnResponse) else await answer


def _end(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    transactions, answer = ctx.broker.transactions, Promise[TransactionResult]()
    outcome = transactions.coordinator.end(
        request.transactional_id,
        producer_id=request.producer_id,
        epoch=request.producer_epoch,
        commit=request.committed,
        client_version=2 if ctx.version >= EPOCH_BUMP_FROM else 0,
        token=answer,
        now_ms=ctx.now_ms,
    )
    transactions.carry_out(outcome, ctx.now_ms)
    return answer.then(lambda result: _response(ctx, result)).result()


def _response(ctx: RequestContext, result: TransactionResult) -> EndTxnResponse:
    code = result.code
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(
        error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch
    )
