"""SASL GSSAPI (RFC 4752): a Kerberos ticket in place of a password.

    client                               server
    token of its context             ->
                                     <-  token of the server's   until both contexts are complete
    (nothing)                        ->
                                     <-  wrapped: the security layers that the server offers
    wrapped: the chosen one, authzid ->

The only layer on offer is none: TLS protects what follows. The authzid is ignored, as in Kafka,
because kafka-python, for one, sends the service's name there. A client is always the principal of
its ticket.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.auth.kerberos_short_namer import KerberosShortNamer
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
    """The library's message, for the local log and not for the peer."""


class GssContext(Protocol):
    """One side of a login. GssFailure for any token that the peer should not have sent."""

    complete: bool
    peer: str  # the other side's principal, once complete
    lifetime_s: int | None  # of its ticket; None is without end

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, data: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


class GssapiMechanism:
    """GSSAPI on a listener: `accept` begins a context with the service's key."""

    name = "GSSAPI"

    def __init__(
        self, accept: Callable[[], GssContext], names: KerberosShortNamer, *, max_reauth_ms: int = 0
    ) -> None:
        self.max_reauth_ms = max_reauth_ms
        self._accept = accept
        self._names = names

    def exchange(self) -> GssapiExchange:
        return GssapiExchange(self._accept(), self._names)


class GssapiExchange:
    """The context, then the layers."""

    def __init__(self, context: GssContext, names: KerberosShortNamer) -> None:
        self._context = context
        self._names = names
        self._steps = 0
        self._offered = False
        self._expires_at_ms: int | None = None

    def step(self, token: bytes, now_ms: int) -> SaslStep:
        """The client gets the same message for every failure; the reason is only logged."""
        try:
            if not self._context.complete:
                return self._establish(token, now_ms)
            if not self._offered:
                return self._offer(token)
            return self._finish(token)
        except (GssFailure, ValueError) as failure:
            log.info("GSSAPI login failed: %s", failure)
            raise refused(REFUSAL) from None

    def _establish(self, token: bytes, now_ms: int) -> SaslStep:
        self._steps += 1
        if self._steps > CONTEXT_STEPS_MAX:
            raise ValueError("the context is not complete after all its tokens")
        context = self._context
        answer = context.step(token)
        if not context.complete:
            return SaslStep(answer)
        if context.lifetime_s is not None:
            self._expires_at_ms = now_ms + context.lifetime_s * 1000
        # Without mutual authentication there is no token for the client: the offer comes at once.
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
    """A client's context and its first token, for which the ticket has been fetched."""

    context: GssContext
    token: bytes


def gssapi_client(start: GssStart) -> Generator[bytes, bytes, None]:
    """Yields the client's tokens and takes the broker's. The broker proves that it has the
    service's key; the client sends no authzid, since its ticket names it."""
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
