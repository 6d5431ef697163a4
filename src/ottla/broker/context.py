"""What a handler is given: the broker's parts, who is asking, and in which version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.quotas import Limits


def unheard(duration_ms: int) -> None:
    """Mutes nobody: the client of a session without a connection, or with one that is closed."""


def unheld(on: bool) -> None:
    """Holds nobody up, for the same reason."""


class Session:
    """One client's connection, as handlers see it."""

    __slots__ = (
        "client_host",
        "client_port",
        "hold",
        "listener",
        "mute",
        "principal",
        "software",
    )

    def __init__(
        self,
        *,
        listener: str,
        client_host: str,
        client_port: int,
        mute: Callable[[int], None] = unheard,
        hold: Callable[[bool], None] = unheld,
    ) -> None:
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self.principal = "User:ANONYMOUS"
        self.software = ""  # name and version, as ApiVersions v3 told them
        self.mute = mute  # for so many milliseconds: nothing more is read from the client
        self.hold = hold  # while True: a Produce waits with its appends, and none may overtake it

    @property
    def user(self) -> str:
        return self.principal.partition(":")[2]


class Context:
    """One request's surroundings. `version` is the API version that the client speaks."""

    __slots__ = ("broker", "client_id", "forwarded", "limits", "now_ms", "session", "version")

    def __init__(
        self, broker: Broker, session: Session, version: int, client_id: str | None, now_ms: int
    ) -> None:
        self.broker = broker
        self.session = session
        self.version = version
        self.client_id = client_id
        self.now_ms = now_ms
        self.forwarded = False  # another broker took it for us: we are the controller, or were
        self.limits: Limits | None = None  # the client's quotas, if it has any


# A handler answers at once (a response message), later (an awaitable of one), or not at all
# (None: Produce with acks=0). Its ordered work is done before it returns, so that no `await`
# can slip in front of an append.
Response = Any
Handler = Callable[[Context, Any], Response | Awaitable[Response] | None]
