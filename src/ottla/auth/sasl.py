"""The server's side of SASL on one connection: handshake, tokens, re-authentication (KIP-368).

    server = SaslServer(mechanisms)             mechanisms: what the listener has enabled
    server.handshake("PLAIN", monotonic_ms)             ErrorCode.NONE, or why not
    server.authenticate(token, now_ms, monotonic_ms)    SaslOutcome: a token to send, or the end

The connection decides which requests may come when, delays the answer to a failure, and closes.
`outcome.error` set: send it with `outcome.message`, then close. `outcome.done`: the connection
belongs to `outcome.principal`, for `session_lifetime_ms` if that is not 0. The session's end is
`server.expires_at_ms`; after it every request but SaslHandshake closes the connection. Credentials
expire by wall time, sessions by the monotonic clock: a machine whose wall time jumps must neither
end all sessions nor refuse their renewal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.auth.principal import Principal
from ottla.errors import ErrorCode, KafkaError

REAUTHENTICATION_INTERVAL_MS: Final = 1000
"""A client that re-authenticates sooner than this is refused, as by Kafka."""


@dataclass(slots=True, frozen=True)
class SaslStep:
    """A mechanism's answer to one token: another token, or at the end the principal."""

    token: bytes | None = b""  # None: no reply at all where tokens are bare (SaslHandshake v0)
    principal: Principal | None = None
    expires_at_ms: int | None = None  # of the credential itself, such as a token


class SaslExchange(Protocol):
    """One run of a mechanism; KafkaError(SASL_AUTHENTICATION_FAILED) if it fails."""

    def step(self, token: bytes, now_ms: int) -> SaslStep: ...


class SaslMechanism(Protocol):
    """A mechanism of a listener, which begins an exchange for each connection."""

    @property
    def name(self) -> str: ...

    @property
    def max_reauth_ms(self) -> int:
        """`connections.max.reauth.ms`: how long a session may last; 0 means no limit."""
        ...

    def exchange(self) -> SaslExchange: ...


@dataclass(slots=True, frozen=True)
class SaslOutcome:
    """The fields of a SaslAuthenticate response."""

    token: bytes | None = b""
    done: bool = False
    principal: Principal | None = None
    session_lifetime_ms: int = 0
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class SaslServer:
    """One connection's authentication; `principal` is None until it has succeeded."""

    def __init__(self, mechanisms: Mapping[str, SaslMechanism]) -> None:
        self._mechanisms = mechanisms
        self._mechanism: SaslMechanism | None = None  # the one that the handshake chose
        self._exchange: SaslExchange | None = None
        self._proven_by: str | None = None
        self._began_ms: int | None = None  # the last re-authentication
        self._refusal: str | None = None
        self.principal: Principal | None = None
        self.expires_at_ms: int | None = None

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms that SaslHandshake lists, whatever its error."""
        return list(self._mechanisms)

    @property
    def mechanism(self) -> str | None:
        """The mechanism that the client chose last."""
        return None if self._mechanism is None else self._mechanism.name

    @property
    def authenticating(self) -> bool:
        """True if there was a handshake whose tokens are still to come."""
        return self._exchange is not None or self._refusal is not None

    def handshake(self, mechanism: str, monotonic_ms: int) -> ErrorCode:
        """Choose a mechanism; on an authenticated connection this begins a re-authentication."""
        if self.authenticating:
            return ErrorCode.ILLEGAL_SASL_STATE
        if self.principal is not None and not self._may_begin(monotonic_ms):
            return ErrorCode.ILLEGAL_SASL_STATE
        chosen = self._mechanisms.get(mechanism)
        if chosen is None:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        if self._proven_by is not None and self._proven_by != mechanism:
            # As in Kafka the handshake succeeds and the token is refused: clients expect that.
            self._refusal = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for"
                f" re-authentication of mechanism '{self._proven_by}'"
            )
            return ErrorCode.NONE
        self._mechanism = chosen
        self._exchange = chosen.exchange()
        return ErrorCode.NONE

    def authenticate(self, token: bytes, now_ms: int, monotonic_ms: int) -> SaslOutcome:
        """Take the client's next token."""
        if self._refusal is not None:
            return self._failed(ErrorCode.SASL_AUTHENTICATION_FAILED, self._refusal)
        if self._exchange is None:
            message = "SaslAuthenticate request received after successful authentication"
            if self.principal is None:
                message = "SaslAuthenticate request received before a SaslHandshake"
            return SaslOutcome(error=ErrorCode.ILLEGAL_SASL_STATE, message=message)
        try:
            step = self._exchange.step(token, now_ms)
        except KafkaError as error:
            return self._failed(error.code, error.message)
        if step.principal is None:
            return SaslOutcome(step.token)
        assert self._mechanism is not None
        lifetime_ms = _lifetime_ms(step.expires_at_ms, self._mechanism.max_reauth_ms, now_ms)
        return self._complete(step, step.principal, lifetime_ms, monotonic_ms)

    def expired(self, monotonic_ms: int) -> bool:
        return self.expires_at_ms is not None and monotonic_ms >= self.expires_at_ms

    def _may_begin(self, monotonic_ms: int) -> bool:
        began_ms = self._began_ms
        if began_ms is not None and monotonic_ms < began_ms + REAUTHENTICATION_INTERVAL_MS:
            return False
        self._began_ms = monotonic_ms
        return True

    def _complete(
        self, step: SaslStep, principal: Principal, lifetime_ms: int, monotonic_ms: int
    ) -> SaslOutcome:
        if self.principal is not None and self.principal != principal:
            message = (
                "Cannot change principals during re-authentication from"
                f" {self.principal.type}.{self.principal.name}: {principal.type}.{principal.name}"
            )
            return self._failed(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
        assert self._mechanism is not None
        self.principal = principal
        self._proven_by = self._mechanism.name
        self._exchange = None
        self.expires_at_ms = monotonic_ms + lifetime_ms if lifetime_ms else None
        return SaslOutcome(step.token, True, principal, lifetime_ms)

    def _failed(self, error: ErrorCode, message: str) -> SaslOutcome:
        """An earlier authentication no longer counts, and the connection must be closed."""
        self._exchange = None
        self._refusal = None
        self.principal = None
        return SaslOutcome(error=error, message=message)


def _lifetime_ms(expires_at_ms: int | None, max_reauth_ms: int, now_ms: int) -> int:
    """Until the credential expires or the operator's limit, whichever is first; 0 for neither."""
    limits = [max_reauth_ms] if max_reauth_ms > 0 else []
    if expires_at_ms is not None:
        limits.append(max(expires_at_ms - now_ms, 1))
    return min(limits, default=0)


def refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, message)
