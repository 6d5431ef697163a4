"""TLS handshakes on accepted sockets: none waits for another, and each has a deadline.

A handshake is the most expensive thing that a stranger gets for free. So there are at most
HANDSHAKES_MAX at a time (the oldest makes room, because it is the likeliest to be dead), only a few
take a step before other connections get their turn, and one that takes longer than
HANDSHAKE_LIMIT_S is closed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.net.limits import HANDSHAKE_LIMIT_S, HANDSHAKES_MAX, HANDSHAKES_PER_TURN
from ottla.net.tls_stream import TlsStream

Finished = Callable[[TlsStream | None, str], None]
"""Called once, with the connection or with the reason why there is none."""

HUNG_UP: Final = ""  # the client disconnected, which is not a failure


class Handshakes:
    """`begin` takes a socket and passes it on as a TlsStream when the handshake is done."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, limit_s: float = HANDSHAKE_LIMIT_S
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._under_way: dict[_Handshake, None] = {}  # in the order in which they began
        self._ready: deque[_Handshake] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, sock: socket.socket, context: ssl.SSLContext, finished: Finished) -> None:
        if len(self._under_way) >= HANDSHAKES_MAX:
            next(iter(self._under_way)).end("more than HANDSHAKES_MAX handshakes are under way")
        secured = context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        handshake = _Handshake(self._loop, secured, self._is_ready, finished)
        self._under_way[handshake] = None
        handshake.forget = lambda: self._under_way.pop(handshake, None)
        handshake.deadline = self._loop.call_later(
            self._limit_s, handshake.end, f"no TLS handshake within {self._limit_s} s"
        )
        handshake.wait_to_read()

    def close(self) -> None:
        for handshake in list(self._under_way):
            handshake.end("the broker stops")

    def _is_ready(self, handshake: _Handshake) -> None:
        self._ready.append(handshake)
        if len(self._ready) == 1:
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        try:
            for _ in range(min(HANDSHAKES_PER_TURN, len(self._ready))):
                self._ready.popleft().step()
        finally:
            # Even if one handshake raises: only this turn schedules the next one.
            if self._ready:
                self._loop.call_soon(self._turn)


class _Handshake:
    """One handshake."""

    __slots__ = ("_finished", "_loop", "_ready", "_socket", "_waiting", "deadline", "forget")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: ssl.SSLSocket,
        ready: Callable[[_Handshake], None],
        finished: Finished,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._ready = ready
        self._finished: Finished | None = finished
        self._waiting: Callable[[int], object] | None = None  # removes the socket from the loop
        self.deadline: asyncio.TimerHandle | None = None
        self.forget: Callable[[], object] | None = None

    def wait_to_read(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._wake)
        self._waiting = self._loop.remove_reader

    def step(self) -> None:
        if self._finished is None:
            return
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self.wait_to_read()
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._socket.fileno(), self._wake)
            self._waiting = self._loop.remove_writer
        except (ssl.SSLEOFError, ConnectionError):
            self.end(HUNG_UP)
        except (OSError, ValueError) as error:
            self.end(getattr(error, "reason", None) or str(error))
        else:
            self._finish(TlsStream(self._socket), "")

    def end(self, reason: str) -> None:
        if self._finished is not None:
            self._rest()
            self._socket.close()
            self._finish(None, reason)

    def _wake(self) -> None:
        self._rest()
        self._ready(self)

    def _rest(self) -> None:
        if self._waiting is not None:
            self._waiting(self._socket.fileno())
            self._waiting = None

    def _finish(self, stream: TlsStream | None, reason: str) -> None:
        finished, self._finished = self._finished, None
        if self.deadline is not None:
            self.deadline.cancel()
        if self.forget is not None:
            self.forget()
        assert finished is not None
        finished(stream, reason)
