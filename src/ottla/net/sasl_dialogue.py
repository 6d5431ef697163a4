"""SASL as a client speaks it to a broker: SaslHandshake, then SaslAuthenticate with each token."""

from __future__ import annotations

from collections.abc import Generator

from ottla.auth.sasl_client import Proof, SaslLogin
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.primitives import Message

SaslDialogue = Generator[tuple[ApiKey, Message], Message, int]


def sasl_dialogue(login: SaslLogin, proof: Proof | None, address: str) -> SaslDialogue:
    """Requests to send; it is sent their responses, and returns how many milliseconds the session
    lasts (0: without end). KafkaError if the broker at `address` refuses us."""
    hands = yield ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=login.mechanism)
    assert isinstance(hands, SaslHandshakeResponse)
    if hands.error_code:
        offered = ", ".join(hands.mechanisms) or "no mechanism at all"
        said = f"{address} does not offer SASL {login.mechanism}, but {offered}"
        raise KafkaError(ErrorCode(hands.error_code), said)
    exchange = login.exchange(proof)
    token = next(exchange)
    while True:
        answer = yield ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=token)
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code), answer.error_message or "")
        try:
            token = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            return answer.session_lifetime
