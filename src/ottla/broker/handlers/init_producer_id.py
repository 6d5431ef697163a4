"""InitProducerId (key 22), v0 to v5.

Gives a producer the id and epoch under which its batches are numbered. Ids come in blocks from the
metadata store, so that none is ever given twice, whatever happens to this process.

With a transactional id it is the coordinator who answers: the same producer id as before, with an
epoch more, which fences whoever had it. A transaction left open is aborted first, and the client
told to ask again (CONCURRENT_TRANSACTIONS).

v3  resume with id and epoch (KIP-360)      v4  PRODUCER_FENCED
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.broker.journal import Answer, then
from ottla.coordinator.transactions.outcome import Result
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_FROM: Final = 4


def handle(
    ctx: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _give(ctx)
    if not ctx.broker.producer_ids.at_hand:
        return _fill_and_initialize(ctx, request, request.transactional_id)
    return _initialize(ctx, request, request.transactional_id)


async def _give(ctx: Context) -> InitProducerIdResponse:
    """A new id even for who names one: without transactions there is nothing to resume."""
    try:
        producer_id = await ctx.broker.producer_ids.next()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _fill_and_initialize(
    ctx: Context, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    with contextlib.suppress(KafkaError):  # whose id is known needs none: the others ask again
        await ctx.broker.producer_ids.fill()
    ctx.now_ms = ctx.broker.clock.now_ms()
    answer = _initialize(ctx, request, transactional_id)
    return answer if isinstance(answer, InitProducerIdResponse) else await answer


def _initialize(
    ctx: Context, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    transactions, answer = ctx.broker.transactions, Answer[Result]()
    expected = None
    if request.producer_id >= 0:
        expected = (request.producer_id, request.producer_epoch)
    outcome = transactions.coordinator.init_producer_id(
        transactional_id,
        timeout_ms=request.transaction_timeout,
        expected=expected,
        token=answer,
        now_ms=ctx.now_ms,
    )
    transactions.carry_out(outcome, ctx.now_ms)
    return then(answer.result(), lambda result: _response(ctx, result))


def _response(ctx: Context, result: Result) -> InitProducerIdResponse:
    code = result.code
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
