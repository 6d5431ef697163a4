"""SASL as a client speaks it to a broker: SaslHandshake, then SaslAuthenticate with each token."""

from __future__ import annotations

from collections.abc import Generator

from ottla.auth.sasl_client import Proof, SaslLogin
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SaslDialogue = Generator[tuple[ApiKey, Message], Message, int]


def sasl_dialogue(login: SaslLogin, proof: Proof | None, address: str) -> SaslDialogue:
    """Yields requests, takes their responses, and returns the session lifetime in milliseconds
    (0: no limit). KafkaError if the broker at `address` refuses us."""
    hands = yield ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=login.mechanism)
    assert isinstance(hands, SaslHandshakeResponse)
    if hands.error_code:
        offered = ", ".join(hands.mechanisms) or "no mechanism at all"
        message = f"{address} does not offer SASL {login.mechanism}, but {offered}"
        raise KafkaError(ErrorCode(hands.error_code), message)
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
