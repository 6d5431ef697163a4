"""Requests that only the controller can serve: carried to it, whichever broker was asked.

They travel in an Envelope (KIP-590), which has the request as the client sent it, in its version,
with the client's name and address: quotas and the rules of older versions hold as if it had asked
the controller itself. A request waits while there is no controller, and goes to the next one if it
met the last one's end.

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

from ottla.broker.context import Context, Session
from ottla.broker.dispatch import ROUTES
from ottla.cluster.image import Image
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.headers import write_request_header
from ottla.wire.messages.default_principal_data import DefaultPrincipalData
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.peer import read_response
from ottla.wire.primitives import Message, Writer

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

WAIT_S_MAX: Final = 30.0  # for a controller, and for its answer
IMAGE_S_MAX: Final = 5.0  # for the image to show what the controller did
PAUSE_S: Final = 0.05

PRINCIPAL_VERSION: Final = Struct(">h")
CORRELATION_ID: Final = 0

# It could not be asked, or is not the controller (any more): asked again, or another is.
PASSING: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)


async def by_controller(
    ctx: Context,
    request: Q,
    api_key: ApiKey,
    response_type: type[R],
    *,
    here: Callable[[Context, Q], Awaitable[R]],
    seen: Callable[[Image, R], bool],
    refused: Callable[[Context, Q, KafkaError], R],
) -> R:
    """Serve it `here` if we are the controller, or have the controller do so.

    Its answer is passed on once our image shows what was done (`seen`). If there is no controller
    for as long as the client has patience, the request is `refused`.
    """
    if ctx.broker.controller.active or ctx.forwarded:
        try:
            return await here(ctx, request)
        except KafkaError as error:
            if ctx.forwarded and error.code is ErrorCode.NOT_CONTROLLER:
                raise  # who sent it to us looks for another
            if error.code is not ErrorCode.NOT_CONTROLLER:
                return refused(ctx, request, error)
    try:
        body = await _asked(ctx, request, api_key)
    except KafkaError as error:
        return refused(ctx, request, error)
    assert isinstance(body, response_type)
    response = body
    await until_image(ctx.broker, lambda image: seen(image, response))
    return response


async def ask_controller(
    broker: Broker, request: Message, api_key: ApiKey, response_type: type[R]
) -> R:
    """This broker's own request to the controller, which may be itself."""
    route = ROUTES[api_key]
    listener = broker.config.inter_broker_listener_name
    session = Session(listener=listener, client_host="127.0.0.1", client_port=0)
    session.internal = True
    client_id = f"ottla-broker-{broker.node_id}"
    ctx = Context(broker, session, route.version_max, client_id, broker.clock.now_ms())
    answer: Any = route.handle(ctx, request)
    if inspect.isawaitable(answer):
        answer = await answer
    assert isinstance(answer, response_type)
    return answer


async def until_image(
    broker: Broker, shows: Callable[[Image], bool], timeout_s: float = IMAGE_S_MAX
) -> bool:
    """Wait until the image shows it; False if it does not in time."""
    if shows(broker.image):
        return True
    wake = asyncio.Event()

    def look(image: Image) -> None:
        if shows(image):
            wake.set()

    broker.metadata.on_image(look)
    try:
        async with asyncio.timeout(timeout_s):
            await wake.wait()
    except TimeoutError:
        return False
    finally:
        broker.metadata.off_image(look)
    return True


async def _asked(ctx: Context, request: Message, api_key: ApiKey) -> Message:
    broker, version = ctx.broker, ctx.version
    envelope = _enveloped(request, api_key, version, ctx.client_id, ctx.session)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _patience_s(request)
    reason = KafkaError(ErrorCode.NOT_CONTROLLER, "there is no controller")
    while (left_s := deadline - loop.time()) > 0:
        controller_id = broker.image.controller_id
        if controller_id >= 0 and (controller_id != broker.node_id or broker.controller.active):
            try:
                response = await broker.neighbours.call(
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
            if reason.code not in PASSING:
                raise reason
        await _another(broker, controller_id)
    raise reason


def _patience_s(request: Message) -> float:
    """The client's, where it says how long that is."""
    timeout_ms = getattr(request, "timeout", 0)
    return min(timeout_ms / 1000, WAIT_S_MAX) if timeout_ms > 0 else WAIT_S_MAX


async def _another(broker: Broker, controller_id: int) -> None:
    """Until there is another controller, or for a moment: it may be the same one's."""
    await until_image(broker, lambda image: image.controller_id != controller_id, PAUSE_S)


def _enveloped(
    request: Message, api_key: ApiKey, version: int, client_id: str | None, session: Session
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
    if not session.internal:  # without one the broker itself asks, which needs no further right
        principal.buffer += PRINCIPAL_VERSION.pack(0)
        DefaultPrincipalData(who.type, who.name, who.token_authenticated).write(principal, 0)
    try:
        address = ipaddress.ip_address(session.client_host).packed
    except ValueError:
        address = bytes(4)
    return EnvelopeRequest(bytes(writer.buffer), bytes(principal.buffer), address)
