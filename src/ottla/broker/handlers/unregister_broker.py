"""UnregisterBroker (key 64), v0 (KIP-500).

Forgets a broker that will not come back. One that lives registers anew at once.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.forwarding import by_controller
from ottla.errors import KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(ctx: Context, request: UnregisterBrokerRequest) -> Awaitable[UnregisterBrokerResponse]:
    return by_controller(
        ctx,
        request,
        ApiKey.UNREGISTER_BROKER,
        UnregisterBrokerResponse,
        here=_unregister,
        seen=lambda image, response: True,
        refused=_refused,
    )


async def _unregister(ctx: Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    await ctx.broker.controller.unregister(request.broker_id)
    return UnregisterBrokerResponse()


def _refused(
    ctx: Context, request: UnregisterBrokerRequest, error: KafkaError
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
