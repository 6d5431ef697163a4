"""One client's socket: requests in, replies out in the same order.

Everything that decides whether this connection reads on lives here:

- an answer that must wait holds up the connection, except Produce, which may overlap;
- more than OUTBOX_BYTES_MAX of untaken replies hold it up until the client has read them;
- a protocol error ends it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.net.flow import OUTBOX_BYTES_MAX, OVERLAPPING_PRODUCES_MAX
from ottla.net.outbound import Outbox
from ottla.wire.connection import Connection, ProtocolError, Request

if TYPE_CHECKING:
    from ottla.net.server import Server

PRODUCE: Final = 0
RECEIVE_BYTES: Final = 64 * 1024

log = logging.getLogger("ottla.net")


class Application(Protocol):
    """What a server serves. `dispatch` returns a response, an awaitable of one, or None."""

    @property
    def served(self) -> Mapping[int, tuple[int, int]]: ...

    def connected(self, listener: str, host: str, port: int) -> Any: ...

    def dispatch(self, session: Any, request: Request) -> Any: ...

    def disconnected(self, session: Any) -> None: ...


class Channel:
    """A connection that the server accepted."""

    __slots__ = (
        "_app",
        "_held",
        "_loop",
        "_overlapping",
        "_reading",
        "_server",
        "_session",
        "_socket",
        "_wire",
        "_writing",
        "active_at",
        "closed",
        "outbox",
        "peer",
    )

    def __init__(
        self, server: Server, sock: socket.socket, peer: tuple[str, int], listener: str
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._app: Application = server.app
        self._socket = sock
        self._wire = Connection(
            self._app.served, frame_bytes_max=server.frame_bytes_max, scratch=server.scratch
        )
        self._session = self._app.connected(listener, peer[0], peer[1])
        self._held = False  # an answer is awaited that nothing may overtake
        self._overlapping = 0  # Produce requests that wait for replicas
        self._reading = True
        self._writing = False
        self.outbox = Outbox(sock)
        self.peer = peer
        self.active_at = self._loop.time()
        self.closed = False
        self._loop.add_reader(sock.fileno(), self._readable)

    @property
    def busy(self) -> bool:
        """A produce is under way or a reply is not yet sent."""
        return self._overlapping > 0 or self.outbox.size > 0

    @property
    def waiting(self) -> bool:
        """The client waits for us, so it is not idle."""
        return self._held or self._overlapping > 0

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        fd = self._socket.fileno()
        if self._reading:
            self._loop.remove_reader(fd)
        if self._writing:
            self._loop.remove_writer(fd)
        self._socket.close()
        self._server.forget(self)
        self._app.disconnected(self._session)

    # reading

    def _readable(self) -> None:
        if self._full():
            self._pause()
            return
        try:
            count = self._socket.recv_into(self._wire.get_buffer(RECEIVE_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        self.active_at = self._loop.time()
        self._wire.received(count)
        self._serve()

    def _full(self) -> bool:
        return (
            self._held
            or self._overlapping >= OVERLAPPING_PRODUCES_MAX
            or self.outbox.size > OUTBOX_BYTES_MAX
        )

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _resume(self) -> None:
        """Go on after a wait: first what is already in the buffer, then the socket."""
        self._serve()
        if not self.closed and not self._reading and not self._full():
            self._reading = True
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _serve(self) -> None:
        """Answer the requests that have arrived, for as long as the client takes the replies."""
        try:
            while self._answer_some() and not self.closed:
                self._flush()
        except ProtocolError as error:
            log.warning("closing the connection of %s:%d: %s", *self.peer, error)
            self.close()
            return
        except Exception:
            log.exception("closing the connection of %s:%d: the broker failed", *self.peer)
            self.close()
            return
        self._wire.settle()
        self._flush()

    def _answer_some(self) -> bool:
        """True when it stopped for the size of the replies only: there may be more to answer."""
        wire, dispatch, session = self._wire, self._app.dispatch, self._session
        while not self._full():
            request = wire.next_request()
            if request is None:
                return False
            answer = dispatch(session, request)
            if isinstance(answer, (asyncio.Future, CoroutineType)):
                self._await(request, answer)
            else:
                self.outbox.push(wire.reply(request, answer))
        return not self._held and not self._writing and self.outbox.size > OUTBOX_BYTES_MAX

    # answers that wait

    def _await(self, request: Request, answer: Awaitable[Any]) -> None:
        if request.api_key == PRODUCE:
            self._overlapping += 1
        else:
            self._held = True
        future = asyncio.ensure_future(answer, loop=self._loop)
        future.add_done_callback(self._finisher(request))

    def _finisher(self, request: Request) -> Callable[[asyncio.Future[Any]], None]:
        def finish(future: asyncio.Future[Any]) -> None:
            self._answered(request, future)

        return finish

    def _answered(self, request: Request, future: asyncio.Future[Any]) -> None:
        if request.api_key == PRODUCE:
            self._overlapping -= 1
        else:
            self._held = False
        if future.cancelled():
            self.close()
            return
        error = future.exception()
        if self.closed:
            return
        if error is not None:
            log.error("closing the connection of %s:%d", *self.peer, exc_info=error)
            self.close()
            return
        self.active_at = self._loop.time()
        self.outbox.push(self._wire.reply(request, future.result()))
        self._resume()

    # writing

    def _flush(self) -> None:
        if self._writing or self.closed or not self.outbox.size:
            return
        try:
            if not self.outbox.flush():
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._writable)
        except OSError as error:
            self._broken(error)

    def _writable(self) -> None:
        try:
            if not self.outbox.flush():
                return
        except OSError as error:
            self._broken(error)
            return
        self._writing = False
        self._loop.remove_writer(self._socket.fileno())
        self.active_at = self._loop.time()
        self._resume()

    def _broken(self, error: OSError) -> None:
        if not isinstance(error, (ConnectionResetError, BrokenPipeError)):
            log.warning("closing the connection of %s:%d: %s", *self.peer, error)
        self.close()
