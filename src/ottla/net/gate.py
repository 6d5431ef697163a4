"""What stands between a connection and the application until the client has authenticated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ottla.wire.connection import Request
from ottla.wire.primitives import Message


class Gate(Protocol):
    """`serve` answers each request until `passed` or `failed`."""

    raw: bool  # the next thing to come is a bare token, not a request
    passed: bool
    failed: bool
    expires: bool  # what was proven counts for some time only

    @property
    def served(self) -> Mapping[int, tuple[int, int]]:
        """The requests that may be read before, and their versions."""
        ...

    @property
    def frame_bytes_max(self) -> int: ...

    @property
    def delay_ms(self) -> int:
        """How long a failure's answer waits."""
        ...

    def serve(self, request: Request) -> Message | None: ...

    def reject(self) -> None:
        """The client has failed, by an answer of ours or by what it sent."""
        ...

    def begins_again(self, request: Request) -> bool:
        """Whether a client that has passed authenticates once more with this request."""
        ...

    def has_expired(self) -> bool: ...
