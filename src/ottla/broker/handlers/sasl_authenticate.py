"""SaslAuthenticate (key 36), v0 to v2.

Before a client has authenticated its gate serves this (broker/authentication.py); here it comes too
late, or on a listener without SASL.

v1  the session's lifetime (KIP-368)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(ctx: Context, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
