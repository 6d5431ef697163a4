"""SASL OAUTHBEARER (RFC 7628): a bearer token in place of a password.

    n,[a=authzid],^Aauth=Bearer <token>^A[name=value^A]^A

A refused token is answered with a JSON object, and the authentication fails at the client's next
message, as in the RFC: so clients get the reason.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.auth.principal import user
from ottla.auth.sasl import SaslStep, refused

SEPARATOR: Final = "\x01"
TOKEN_LENGTH_MAX: Final = 65_536

_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,\x01]+))?,\x01(?P<pairs>(?:[A-Za-z]+=[^\x01]*\x01)+)\x01\Z"
)
_BEARER: Final = re.compile(r"(?i:bearer) (?P<token>[-A-Za-z0-9._~+/]+=*)\Z")


@dataclass(slots=True, frozen=True)
class AcceptedToken:
    """The principal's name of a valid token, and when the token expires."""

    name: str
    expires_at_ms: int


class TokenValidator(Protocol):
    def validate(self, token: str, now_ms: int) -> AcceptedToken:
        """ValueError says why a token is refused."""
        ...


class OAuthBearerMechanism:
    """OAUTHBEARER on a listener."""

    name = "OAUTHBEARER"

    def __init__(self, validator: TokenValidator, *, max_reauth_ms: int = 0) -> None:
        self.max_reauth_ms = max_reauth_ms
        self._validator = validator

    def exchange(self) -> OAuthBearerExchange:
        return OAuthBearerExchange(self._validator)


class OAuthBearerExchange:
    """One token; if it is refused, one more message before the failure."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._refusal: str | None = None

    def step(self, token: bytes, now_ms: int) -> SaslStep:
        if self._refusal is not None:
            raise refused(self._refusal)
        bearer, authzid = _first_message(token)
        try:
            accepted = self._validator.validate(bearer, now_ms)
        except ValueError as error:
            self._refusal = json.dumps(
                {"status": "invalid_token", "error_description": str(error)},
                separators=(",", ":"),
            )
            return SaslStep(self._refusal.encode())
        if authzid not in (None, accepted.name):
            raise refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from the token's principal name"
            )
        return SaslStep(principal=user(accepted.name), expires_at_ms=accepted.expires_at_ms)


def bearer_token(authorization: str) -> str | None:
    """The token of `Bearer <token>`; None for anything else."""
    found = _BEARER.match(authorization)
    return found["token"] if found is not None else None


def _first_message(message: bytes) -> tuple[str, str | None]:
    """(token, authzid). Extensions are ignored, because nothing here uses any."""
    try:
        match = _FIRST.match(message.decode()) if len(message) <= TOKEN_LENGTH_MAX else None
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise refused("Invalid OAUTHBEARER client first message")
    pairs = [pair.partition("=")[::2] for pair in match["pairs"].split(SEPARATOR) if pair]
    authorizations = [value for name, value in pairs if name == "auth"]
    bearer = bearer_token(authorizations[0]) if len(authorizations) == 1 else None
    if bearer is None:
        raise refused("Invalid OAUTHBEARER client first message: no bearer token")
    return bearer, match["authzid"]
