"""SaslAuthenticate (key 36), v0 to v2.

Before a client has authenticated, its authenticator serves this (broker/authentication.py). A
request that arrives here comes too late, or on a listener without SASL.

v1  the session's lifetime (KIP-368)
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(ctx: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
