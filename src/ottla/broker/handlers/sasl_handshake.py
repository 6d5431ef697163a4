"""SaslHandshake (key 17), v0 to v1.

Before a client has authenticated its gate serves this (broker/authentication.py), and after that
where a session has an end. Whoever else sends it is not in a state to.
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(ctx: Context, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
