"""What serves a connection's requests until the client has authenticated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.wire.connection import Request
from ottla.wire.fields import Message


class Authenticator(Protocol):
    """`serve` answers each request until `passed` or `failed` is set."""

    raw: bool  # the client sends a bare SASL token next, not a request (SaslHandshake v0)
    passed: bool
    failed: bool
    expires: bool  # the session has an end, before which the client must re-authenticate

    @property
    def served(self) -> Mapping[int, tuple[int, int]]:
        """The APIs that a client may use before it has authenticated, and their versions."""
        ...

    @property
    def frame_bytes_max(self) -> int: ...

    @property
    def delay_ms(self) -> int:
        """How long the response to a failed authentication is delayed."""
        ...

    def serve(self, request: Request) -> Message | None: ...

    def reject(self) -> None:
        """The client has failed to authenticate, or has broken the protocol."""
        ...

    def is_reauthentication(self, request: Request) -> bool:
        """True if this request begins a re-authentication."""
        ...

    def has_expired(self) -> bool: ...
