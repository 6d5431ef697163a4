"""The client's side of SASL: a login, and the tokens that it exchanges with a broker.

No I/O: `SaslLogin.exchange` yields the tokens to send and takes the broker's answers. Clients
(client/protocol/connection.py) and connections between brokers (net/inter_broker_connection.py)
drive the same exchange.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from ottla.auth.gssapi import GssapiMechanism, GssStart, gssapi_client
from ottla.auth.sasl import refused
from ottla.auth.scram import HASHES, ScramClient

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = GssapiMechanism.name
SASL_CLIENT_MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER, GSSAPI)
_SEPARATOR: Final = "\x01"
_KILL: Final = b"\x01"  # RFC 7628: the client's reply to an error, after which the server fails


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A bearer token, its principal, and when it expires by `time.time`."""

    value: str = field(repr=False)
    principal: str
    expires_at: float
    fetched_at: float


Proof = BearerToken | GssStart


class BearerSource(Protocol):
    """Where bearer tokens come from."""

    def token(self) -> BearerToken:
        """The valid token. May wait for an endpoint, so not on an event loop."""
        ...


class TicketSource(Protocol):
    """Where Kerberos tickets come from."""

    def begin(self, host: str) -> GssStart:
        """A login to the service on this host. May wait for a KDC, so not on an event loop."""
        ...


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """A user's login by one mechanism. `is_token`: the user is a delegation token's id (KIP-48).
    With OAUTHBEARER the proof comes from `source`, with GSSAPI from `tickets`, and `user` is only
    used in error messages.
    """

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    source: BearerSource | None = None
    tickets: TicketSource | None = None
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def principal(self) -> str:
        """The name of this login in error messages."""
        if self.mechanism == GSSAPI:
            return self.user or "the owner of the ticket cache"
        return f"delegation token {self.user}" if self.is_token else f"User:{self.user}"

    def proof(self, host: str) -> Proof | None:
        """What `exchange` needs for the broker on this host. May wait for a service, so not on an
        event loop."""
        if self.tickets is not None:
            return self.tickets.begin(host)
        return None if self.source is None else self.source.token()

    def exchange(self, proof: Proof | None = None) -> Generator[bytes, bytes, None]:
        """Yields tokens and takes the broker's answers.

        KafkaError if the broker refuses the login, or fails to prove its own identity.
        """
        if self.mechanism == PLAIN:
            yield f"\0{self.user}\0{self.password}".encode()
        elif self.mechanism == OAUTHBEARER:
            assert isinstance(proof, BearerToken)
            yield from _bear(proof, dict(self.extensions))
        elif self.mechanism == GSSAPI:
            assert isinstance(proof, GssStart)
            yield from gssapi_client(proof)
        else:
            scram = ScramClient(self.mechanism, self.user, self.password, token=self.is_token)
            challenge = yield scram.first()
            last = yield scram.final(challenge)
            scram.verify(last)


def status_of(answer: bytes | str) -> str:
    """The status in a broker's reply to a refused token: {"status":"invalid_token"}."""
    try:
        found = json.loads(answer)
        return str(found.get("status", "invalid_token"))
    except (ValueError, AttributeError):
        return "invalid_token"


def _bear(bearer: BearerToken, extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """RFC 7628: `n,,^Aauth=Bearer <token>^A<extensions>^A`."""
    pairs = {"auth": f"Bearer {bearer.value}", **extensions}
    text = _SEPARATOR.join(f"{name}={value}" for name, value in pairs.items())
    answer = yield f"n,,{_SEPARATOR}{text}{_SEPARATOR}{_SEPARATOR}".encode()
    if answer:  # the error comes before the failure
        yield _KILL
        raise refused(status_of(answer))
