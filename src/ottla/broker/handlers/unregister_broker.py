"""UnregisterBroker (key 64), v0 (KIP-500).

Unregisters a broker that will not come back. A live broker registers again at once.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.forwarding import forward_to_controller
from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    ctx: RequestContext, request: UnregisterBrokerRequest
) -> Awaitable[UnregisterBrokerResponse]:
    return forward_to_controller(
        ctx,
        request,
        ApiKey.UNREGISTER_BROKER,
        UnregisterBrokerResponse,
        here=_unregister,
        seen=lambda image, response: True,
        refused=_refused,
    )


async def _unregister(
    ctx: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    await ctx.broker.controller.unregister(request.broker_id)
    return UnregisterBrokerResponse()


def _refused(
    ctx: RequestContext, request: UnregisterBrokerRequest, error: KafkaError
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message or None)
