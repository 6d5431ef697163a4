"""UnregisterBroker (key 64), v0 (KIP-500).

Forgets a broker that will not come back. One that lives registers anew at once.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.forwarding import forward
from ottla.errors import KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(ctx: Context, request: UnregisterBrokerRequest) -> Awaitable[UnregisterBrokerResponse]:
    if ctx.broker.controller.active:
        return _unregister(ctx, request)
    return _forward(ctx, request)


async def _forward(ctx: Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    api_key = ApiKey.UNREGISTER_BROKER
    try:
        return await forward(ctx, request, api_key, UnregisterBrokerResponse, lambda *_: True)
    except KafkaError as error:
        return _refused(error)


async def _unregister(ctx: Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    try:
        await ctx.broker.controller.unregister(request.broker_id)
    except KafkaError as error:
        return _refused(error)
    return UnregisterBrokerResponse()


def _refused(error: KafkaError) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
