"""Envelope (key 58), v0 (KIP-590).

A broker forwards a client's request to the controller in it. The controller serves that request
with the client's principal and returns the response as bytes. ApiVersions does not list this API;
with an authorizer it requires CLUSTER_ACTION.
"""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Awaitable
from functools import partial
from typing import Any, Final

from ottla.auth.principal import Principal
from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES, handler_of
from ottla.broker.large_requests import read_large
from ottla.broker.portions import portions_of
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import READ_BYTES_MAX, ProtocolError, UnreadBody
from ottla.wire.fields import MalformedError, Writer
from ottla.wire.headers import (
    REQUEST_START_BYTES,
    read_request_rest,
    read_request_start,
    write_response_header,
)
from ottla.wire.messages.default_principal_data import DefaultPrincipalData
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
    }
)
PRINCIPAL_VERSION_BYTES: Final = 2


def handle(
    ctx: RequestContext, request: EnvelopeRequest
) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
    broker = ctx.broker
    between_brokers = ctx.session.listener == broker.config.inter_broker_listener_name
    if broker.access is not None and not between_brokers:
        # An envelope may name any principal, so CLUSTER_ACTION on a client listener is not enough.
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not ctx.broker.controller.active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return _serve(ctx, request)


async def _serve(outer: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Serve a large embedded request in portions, as one that was not forwarded."""
    large = outer.broker.large_requests
    try:
        api_key, ctx, unread, correlation_id = _open(outer, request)
        if len(request.request_data) > READ_BYTES_MAX:
            body = await large.off_loop(read_large, api_key, unread)
        else:
            body = unread.read()
    except (MalformedError, ProtocolError, ValueError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    handle = partial(handler_of(ctx, api_key), ctx)
    cut = portions_of(api_key, body)
    try:
        if cut is not None:
            answer: Any = await large.in_portions(body, cut, handle)
        elif inspect.isawaitable(answer := handle(body)):
            answer = await answer
    except KafkaError as error:  # NOT_CONTROLLER: this broker was the controller
        return EnvelopeResponse(error_code=error.code)
    writer = Writer()
    header_version = APIS[api_key].response_header_version(ctx.version)
    write_response_header(writer, header_version, correlation_id)
    answer.write(writer, ctx.version)
    return EnvelopeResponse(response_data=bytes(writer.buffer))


def _open(
    ctx: RequestContext, request: EnvelopeRequest
) -> tuple[int, RequestContext, UnreadBody, int]:
    """The embedded request, with the context of the client that sent it."""
    data = request.request_data
    api_key, version, correlation_id = read_request_start(data, 0)
    route = ROUTES.get(api_key)
    if (
        api_key not in FORWARDED
        or route is None
        or not route.version_min <= version <= route.version_max
    ):
        raise MalformedError(f"an envelope with API {api_key} v{version} inside")
    api = APIS[api_key]
    header_version = api.request_header_version(version)
    client_id, position = read_request_rest(data, REQUEST_START_BYTES, header_version)
    unread = UnreadBody(api, version, bytes(data[position:]))
    session = ClientSession(
        listener=ctx.session.listener,
        client_host=str(ipaddress.ip_address(bytes(request.client_host_address))),
        client_port=0,
    )
    if request.request_principal:
        principal, _ = DefaultPrincipalData.read(
            request.request_principal, PRINCIPAL_VERSION_BYTES, 0
        )
        session.principal = Principal(
            principal.type_, principal.name, principal.token_authenticated
        )
    else:
        session.internal = True
    inner = RequestContext(ctx.broker, session, version, client_id, ctx.now_ms)
    inner.forwarded = True
    if ctx.broker.quotas.active:
        inner.limits = ctx.broker.quotas.limits(session.user, client_id or "")
    return api_key, inner, unread, correlation_id
