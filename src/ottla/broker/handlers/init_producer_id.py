"""InitProducerId (key 22), v0 to v5.

Gives an idempotent producer the id under which its batches are numbered. Ids come in blocks from
the metadata store, so that none is ever given twice, whatever happens to this process.

A transactional id is refused until the transaction coordinator is built: UNSUPPORTED_VERSION
tells the client at once that it can't have transactions here.

v3  resume with id and epoch (KIP-360)      v4  PRODUCER_FENCED
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    ctx: Context, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id == "" or (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    return _give(ctx)


async def _give(ctx: Context) -> InitProducerIdResponse:
    """A new id even for who names one: without transactions there is nothing to resume."""
    try:
        producer_id = await ctx.broker.producer_ids.next()
    except KafkaError as error:
        return _refused(error.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
