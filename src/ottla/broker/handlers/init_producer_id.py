"""InitProducerId (key 22), v0 to v5.

Gives a producer its id and epoch. Ids are allocated in blocks from the metadata store, so that no
id is ever given out twice, even if this process dies.

With a transactional id the transaction coordinator answers: with the producer id of the last time
and the next epoch, which fences the former producer. An open transaction is aborted first;
until that is done the client gets CONCURRENT_TRANSACTIONS and retries.

v3  resume with id and epoch (KIP-360)      v4  PRODUCER_FENCED
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Final

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.coordinator.transactions.result import TransactionResult
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_FROM: Final = 4


def handle(
    ctx: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _new_producer_id(ctx)
    if not ctx.broker.producer_ids.at_hand:
        return _fill_and_initialize(ctx, request, request.transactional_id)
    return _initialize(ctx, request, request.transactional_id)


async def _new_producer_id(ctx: RequestContext) -> InitProducerIdResponse:
    """Always a new id: without a transactional id a producer has nothing to resume."""
    try:
        producer_id = await ctx.broker.producer_ids.next()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _fill_and_initialize(
    ctx: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    with contextlib.suppress(KafkaError):  # only new transactional ids need one: they retry
        await ctx.broker.producer_ids.fill()
    ctx.now_ms = ctx.broker.clock.now_ms()
    answer = _initialize(ctx, request, transactional_id)
    return answer if isinstance(answer, InitProducerIdResponse) else await answer


def _initialize(
    ctx: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    transactions, answer = ctx.broker.transactions, Promise[TransactionResult]()
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
    return answer.then(lambda result: _response(ctx, result)).result()


def _response(ctx: RequestContext, result: TransactionResult) -> InitProducerIdResponse:
    code = result.code
    if code is ErrorCode.PRODUCER_FENCED and ctx.version < FENCED_FROM:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch
    )


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
