"""SASL GSSAPI (RFC 4752): a Kerberos ticket in place of a password.

    client                               server
    token of its context             ->
                                     <-  token of ours           until both contexts are complete
    (nothing)                        ->
                                     <-  wrapped: the security layers that we offer
    wrapped: the one it takes, authzid ->

The only layer is none: TLS protects what comes after. The authzid is read and not used, as in
Kafka: kafka-python, for one, sends the name of the service there. Whoever holds a ticket is the
ticket's principal and nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.auth.kerberos_names import ShortNames
from ottla.auth.principal import user
from ottla.auth.sasl import SaslStep, refused

NO_LAYER: Final = b"\x01\0\0\0"  # the layers as bits, and the size of messages in them
CONTEXT_STEPS_MAX: Final = 4  # Kerberos takes one or two
REFUSAL: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    " GSSAPI"
)

log = logging.getLogger("ottla.auth.gssapi")


class GssFailure(Exception):
    """The library's words: for a log of ours, not for the peer."""


class GssContext(Protocol):
    """One side of a login. GssFailure comes of whatever the peer should not have sent."""

    complete: bool
    peer: str  # who the other side is, when it is complete
    lifetime_s: int | None  # how long its ticket is good; None is without end

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, data: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


class GssapiMechanism:
    """GSSAPI on a listener: `accept` begins a context with the service's key."""

    name = "GSSAPI"

    def __init__(
        self, accept: Callable[[], GssContext], names: ShortNames, *, max_reauth_ms: int = 0
    ) -> None:
        self.max_reauth_ms = max_reauth_ms
        self._accept = accept
        self._names = names

    def exchange(self) -> GssapiExchange:
        return GssapiExchange(self._accept(), self._names)


class GssapiExchange:
    """The context, then the layers."""

    def __init__(self, context: GssContext, names: ShortNames) -> None:
        self._context = context
        self._names = names
        self._steps = 0
        self._offered = False
        self._expires_at_ms: int | None = None

    def step(self, token: bytes, now_ms: int) -> SaslStep:
        """One sentence for every failure: the reason is in our log only."""
        try:
            if not self._context.complete:
                return self._establish(token, now_ms)
            if not self._offered:
                return self._offer(token)
            return self._finish(token)
        except (GssFailure, ValueError) as failure:
            log.info("A GSSAPI login failed: %s", failure)
            raise refused(REFUSAL) from None

    def _establish(self, token: bytes, now_ms: int) -> SaslStep:
        self._steps += 1
        if self._steps > CONTEXT_STEPS_MAX:
            raise ValueError("the context does not come to an end")
        context = self._context
        answer = context.step(token)
        if not context.complete:
            return SaslStep(answer)
        if context.lifetime_s is not None:
            self._expires_at_ms = now_ms + context.lifetime_s * 1000
        # A client that asked for no proof of ours has nothing to wait for but the layers.
        return SaslStep(answer) if answer else self._offer(b"")

    def _offer(self, token: bytes) -> SaslStep:
        if token:
            raise ValueError("a token after the end of the context")
        self._offered = True
        return SaslStep(self._context.wrap(NO_LAYER))

    def _finish(self, token: bytes) -> SaslStep:
        chosen = self._context.unwrap(token)
        if len(chosen) < len(NO_LAYER) or chosen[0] != NO_LAYER[0]:
            raise ValueError("a security layer that was not offered")
        name = self._names.short_name(self._context.peer)
        return SaslStep(None, user(name), self._expires_at_ms)


@dataclass(frozen=True, slots=True)
class GssStart:
    """A client's context whose first token is there: the ticket has been fetched for it."""

    context: GssContext
    token: bytes


def gssapi_client(start: GssStart) -> Generator[bytes, bytes, None]:
    """Our tokens; it is sent the broker's answers. The broker proves that it has the service's
    key, and we are whom our ticket names: no authzid."""
    context, token = start.context, start.token
    try:
        for _ in range(CONTEXT_STEPS_MAX):
            answer = yield token
            if context.complete:
                break
            token = context.step(answer)
        layers = context.unwrap(answer) if context.complete else b""
        if len(layers) < len(NO_LAYER) or not layers[0] & NO_LAYER[0]:
            raise GssFailure("the broker demands a security layer")
        last = context.wrap(NO_LAYER)
    except GssFailure as failure:
        raise refused(str(failure)) from None
    yield last
