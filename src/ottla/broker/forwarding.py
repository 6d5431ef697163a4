"""Forwards requests that only the controller can serve.

They travel in an Envelope (KIP-590) with the request as the client sent it, in its version, and
with the client's principal and address. So quotas, and the rules of older versions, hold as if the
client had asked the controller itself. While there is no controller a request waits; if the
controller changes in between, it goes to the new one.

A broker answers its client when its own image shows what the controller did, so that the client's
next request finds it.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import MetadataImage
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.fields import Message, Writer
from ottla.wire.headers import write_request_header
from ottla.wire.messages.default_principal_data import DefaultPrincipalData
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.peer import read_response

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts
    from ottla.cluster.metadata_cache import MetadataCache

FORWARDING_S_MAX: Final = 30.0  # for a controller, and for its answer
IMAGE_S_MAX: Final = 5.0  # for the image to show what the controller did
PAUSE_S: Final = 0.05

PRINCIPAL_VERSION: Final = Struct(">h")
CORRELATION_ID: Final = 0

# The broker could not be reached, or is not the controller any more: ask again, or ask another.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


async def forward_to_controller(
    ctx: RequestContext,
    request: Q,
    api_key: ApiKey,
    response_type: type[R],
    *,
    here: Callable[[RequestContext, Q], Awaitable[R]],
    seen: Callable[[MetadataImage, R], bool],
    refused: Callable[[RequestContext, Q, KafkaError], R],
) -> R:
    """Serve the request `here` if this broker is the controller, else forward it.

    The controller's response is passed on when our image shows what was done (`seen`). If there is
    no controller until the client's timeout, the response is what `refused` returns.
    """
    if ctx.broker.controller.active or ctx.forwarded:
        try:
            return await here(ctx, request)
        except KafkaError as error:
            if ctx.forwarded and error.code is ErrorCode.NOT_CONTROLLER:
                raise  # the broker that forwarded it looks for the new controller
            if error.code is not ErrorCode.NOT_CONTROLLER:
                return refused(ctx, request, error)
    try:
        body = await _asked(ctx, request, api_key)
    except KafkaError as error:
        return refused(ctx, request, error)
    assert isinstance(body, response_type)
    response = body
    await await_image(ctx.broker.metadata, lambda image: seen(image, response))
    return response


async def call_controller(
    broker: BrokerParts, request: Message, api_key: ApiKey, response_type: type[R]
) -> R:
    """Send this broker's own request to the controller, which may be itself."""
    route = ROUTES[api_key]
    listener = broker.config.inter_broker_listener_name
    session = ClientSession(listener=listener, client_host="127.0.0.1", client_port=0)
    session.internal = True
    client_id = f"ottla-broker-{broker.node_id}"
    ctx = RequestContext(broker, session, route.version_max, client_id, broker.clock.now_ms())
    answer: Any = route.handle(ctx, request)
    if inspect.isawaitable(answer):
        answer = await answer
    assert isinstance(answer, response_type)
    return answer


async def await_image(
    metadata: MetadataCache, shows: Callable[[MetadataImage], bool], timeout_s: float = IMAGE_S_MAX
) -> bool:
    """Wait until `shows` is true of the image; False if that takes longer than the timeout."""
    if shows(metadata.image):
        return True
    wake = asyncio.Event()

    def look(image: MetadataImage) -> None:
        if shows(image):
            wake.set()

    metadata.add_listener(look)
    try:
        async with asyncio.timeout(timeout_s):
            await wake.wait()
    except TimeoutError:
        return False
    finally:
        metadata.remove_listener(look)
    return True


async def _asked(ctx: RequestContext, request: Message, api_key: ApiKey) -> Message:
    broker, version = ctx.broker, ctx.version
    envelope = _enveloped(request, api_key, version, ctx.client_id, ctx.session)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _patience_s(request)
    reason = KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller")
    while (left_s := deadline - loop.time()) > 0:
        controller_id = broker.image.controller_id
        if controller_id >= 0 and (controller_id != broker.node_id or broker.controller.active):
            try:
                response = await broker.connections.call(
                    controller_id,
                    envelope,
                    ApiKey.ENVELOPE,
                    EnvelopeResponse,
                    version=0,
                    timeout_s=left_s,
                )
                if response.error_code == ErrorCode.NONE:
                    data = response.response_data or b""
                    return read_response(data, APIS[api_key], version, CORRELATION_ID).body
                reason = KafkaError(ErrorCode(response.error_code))
            except KafkaError as error:
                reason = error
            if reason.code not in RETRIABLE:
                raise reason
        await _another(broker.metadata, controller_id)
    raise reason


def _patience_s(request: Message) -> float:
    """The timeout of the request, if it has one."""
    timeout_ms = getattr(request, "timeout", 0)
    return min(timeout_ms / 1000, FORWARDING_S_MAX) if timeout_ms > 0 else FORWARDING_S_MAX


async def _another(metadata: MetadataCache, controller_id: int) -> None:
    """Wait for another controller, but only for a moment: it may be the same broker again."""
    await await_image(metadata, lambda image: image.controller_id != controller_id, PAUSE_S)


def _enveloped(
    request: Message, api_key: ApiKey, version: int, client_id: str | None, session: ClientSession
) -> EnvelopeRequest:
    writer = Writer()
    write_request_header(
        writer,
        APIS[api_key].request_header_version(version),
        api_key=api_key,
        version=version,
        correlation_id=CORRELATION_ID,
        client_id=client_id,
    )
    request.write(writer, version)
    who = session.principal
    principal = Writer()
    if not session.internal:  # an envelope without a principal is a broker's own
        principal.buffer += PRINCIPAL_VERSION.pack(0)
        DefaultPrincipalData(who.type, who.name, who.token_authenticated).write(principal, 0)
    try:
        address = ipaddress.ip_address(session.client_host).packed
    except ValueError:
        address = bytes(4)
    return EnvelopeRequest(bytes(writer.buffer), bytes(principal.buffer), address)
