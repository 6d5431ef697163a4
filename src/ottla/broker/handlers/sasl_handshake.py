"""SaslHandshake (key 17), v0 to v1 (KIP-43).

Before a client has authenticated, its authenticator serves this (broker/authentication.py), and so
it does when a session is renewed. In any other state the request is illegal.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(ctx: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
