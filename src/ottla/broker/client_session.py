"""One client's connection, as request handlers see it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.auth.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from ottla.auth.authorizer import Rights


def no_mute(duration_ms: int) -> None:
    """For a session without a connection, or whose connection is closed."""


def no_hold(on: bool) -> None:
    """For a session without a connection, or whose connection is closed."""


class ClientSession:
    """Who the client is, and what the broker may do to its connection."""

    __slots__ = (
        "_principal",
        "client_host",
        "client_port",
        "closed",
        "hold",
        "internal",
        "listener",
        "mute",
        "rights",
        "software",
        "wait",
    )

    def __init__(
        self,
        *,
        listener: str,
        client_host: str,
        client_port: int,
        mute: Callable[[int], None] = no_mute,
        hold: Callable[[bool], None] = no_hold,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self._principal: Principal = ANONYMOUS  # until TLS or SASL has proven another
        self.rights: Rights | None = None  # of the principal, as of the last request
        self.internal = False  # True for this broker's own requests
        self.closed = False  # the client has disconnected
        self.wait: asyncio.Future[Any] | None = None  # of a large request, cancelled on disconnect
        self.software = ""  # name and version, from ApiVersions v3
        self.mute = mute  # stop reading from the client for so many milliseconds
        self.hold = hold  # while True: a Produce waits before its appends; none may overtake it

    @property
    def principal(self) -> Principal:
        return self._principal

    @principal.setter
    def principal(self, principal: Principal) -> None:
        self._principal = principal
        self.rights = None

    @property
    def user(self) -> str:
        """The name that quotas apply to."""
        return self._principal.name
