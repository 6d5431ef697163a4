"""One client's connection: requests in, replies out in the same order.

Every rule that decides whether this connection is read from is in this file:

- a response that must wait holds the connection, so that replies keep the order of requests. Only
  Produce requests overlap: a producer sends up to five without waiting. A Produce that has not
  appended yet holds the connection as well (`hold`), so that batches are appended in order;
- a follower's fetch waits until its next request arrives, at the latest. That request shows the
  follower's progress, for which other requests may wait;
- more than OUTBOX_BYTES_MAX of unsent replies hold it until the client has read them;
- a client over its quota is not read from until its throttle time is over (KIP-219);
- after TURN_REQUESTS_MAX requests the other connections get their turn;
- a client that disconnects while its request waits cancels the request;
- before it has authenticated only its authenticator serves it, and a failure closes it;
- a protocol error closes it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.net.authenticator import Authenticator
from ottla.net.delayed_response import DelayedResponse
from ottla.net.limits import (
    OUTBOX_BYTES_MAX,
    OVERLAPPING_PRODUCES_MAX,
    TURN_REQUESTS_MAX,
    TURN_ROUNDS_MAX,
)
from ottla.net.outbox import Outbox, TlsOutbox
from ottla.net.tls_stream import TlsStream
from ottla.wire.connection import Connection, ProtocolError, Request
from ottla.wire.fields import Part

if TYPE_CHECKING:
    from ottla.net.server import Server

PRODUCE: Final = 0
RECEIVE_BYTES: Final = 64 * 1024

log = logging.getLogger("ottla.net")


class RequestHandler(Protocol):
    """What a server serves. `dispatch` returns a response, an awaitable of one, or None for no
    reply (acks=0)."""

    @property
    def served(self) -> Mapping[int, tuple[int, int]]: ...

    def admit(self, host: str) -> tuple[int, int]:
        """(ms to delay this connection before closing it, ms to pause accepting); 0 for neither."""
        ...

    def connected(
        self,
        listener: str,
        host: str,
        port: int,
        mute: Callable[[int], None],
        hold: Callable[[bool], None],
    ) -> Any: ...

    def authenticator(self, session: Any, certificate: bytes | None) -> Authenticator | None:
        """The authentication that comes first; None if the listener needs none.

        `certificate` is a TLS client's, as DER. KafkaError if it maps to no principal.
        """
        ...

    def rejected(self, listener: str, reason: str) -> None:
        """A TLS handshake has failed."""
        ...

    def dispatch(self, session: Any, request: Request) -> Any: ...

    def disconnected(self, session: Any) -> None: ...


class Channel:
    """A connection that the server accepted."""

    __slots__ = (
        "_app",
        "_arriving",
        "_arriving_since",
        "_authenticator",
        "_awaited",
        "_behind",
        "_draining",
        "_expiring",
        "_held",
        "_loop",
        "_mute_timer",
        "_muted_until",
        "_ordered",
        "_overlapping",
        "_reading",
        "_reading_on",
        "_server",
        "_session",
        "_socket",
        "_stream",
        "_wire",
        "_writing",
        "active_at",
        "closed",
        "opened_at",
        "outbox",
        "peer",
    )

    def __init__(
        self,
        server: Server,
        sock: socket.socket | TlsStream,
        peer: tuple[str, int],
        listener: str,
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._app: RequestHandler = server.app
        self._socket: Any = sock
        self._stream = sock if isinstance(sock, TlsStream) else None
        self._wire = Connection(
            self._app.served, frame_bytes_max=server.frame_bytes_max, scratch=server.scratch
        )
        self._held = False  # a response is awaited that nothing may overtake, or we are muted
        self._mute_timer: asyncio.TimerHandle | None = None
        self._muted_until = 0.0
        self._awaited: asyncio.Future[Any] | None = None  # that response
        self._behind = False  # there is more to serve in the next turn
        self._draining = False
        self._ordered = False  # a Produce has yet to append: nothing after it may be served
        self._overlapping = 0  # Produce requests that wait for replicas
        self._arriving = -1  # the request that was partly received at the last sweep
        self._arriving_since = 0.0
        self._reading = True
        self._reading_on = False  # will look for more bytes that OpenSSL has buffered
        self._writing = False
        self.outbox = (
            Outbox(sock) if self._stream is None else TlsOutbox(self._stream, server.tls_scratch)
        )
        self.peer = peer
        self.active_at = self.opened_at = self._loop.time()
        self.closed = False
        self._session = self._app.connected(listener, peer[0], peer[1], self.mute, self.hold)
        self._authenticator: Authenticator | None = self._find_authenticator()
        # Set if the client has to authenticate again after some time (KIP-368).
        self._expiring: Authenticator | None = None
        if self._authenticator is not None:
            self._wire.restrict(self._authenticator.served, self._authenticator.frame_bytes_max)
        self._loop.add_reader(sock.fileno(), self._readable)

    def _find_authenticator(self) -> Authenticator | None:
        certificate = None if self._stream is None else self._stream.certificate()
        try:
            return self._app.authenticator(self._session, certificate)
        except BaseException:
            self._app.disconnected(self._session)
            raise

    @property
    def busy(self) -> bool:
        """True while a produce is under way or a reply is unsent."""
        return self._overlapping > 0 or self.outbox.size > 0

    @property
    def waiting(self) -> bool:
        """True while the client waits for the broker, and so is not idle."""
        return self._held or self._overlapping > 0

    @property
    def authenticating(self) -> bool:
        return self._authenticator is not None

    @property
    def unheard(self) -> bool:
        """True while the client waits and nothing is read: a hang-up would go unnoticed."""
        return self._held and not self._reading

    def is_slow(self, limit_s: float) -> bool:
        """True if one request has been arriving for longer than the limit; called by each sweep."""
        now = self._loop.time()
        arriving = self._wire.arriving
        if self.waiting or arriving != self._arriving:
            self._arriving, self._arriving_since = arriving, now
        return arriving >= 0 and now - self._arriving_since > limit_s

    def fileno(self) -> int:
        fd: int = self._socket.fileno()
        return fd

    def drain(self) -> None:
        """Serve no further request; those under way are still answered."""
        self._draining = self._held = True

    def mute(self, duration_ms: int) -> None:
        """Serve no further request for `duration_ms`; replies still go out (KIP-219)."""
        if self.closed:
            return
        self._muted_until = max(self._muted_until, self._loop.time() + duration_ms / 1000)
        self._held = True
        if self._mute_timer is None:
            self._mute_timer = self._loop.call_at(self._muted_until, self._unmute)

    def hold(self, on: bool) -> None:
        """Serve no further request while it is on."""
        self._ordered = on
        if not on and not self.closed:
            self._resume()

    def _unmute(self) -> None:
        if self._loop.time() < self._muted_until:  # muted again meanwhile, for longer
            self._mute_timer = self._loop.call_at(self._muted_until, self._unmute)
            return
        self._mute_timer = None
        self._held = self._draining or self._awaited is not None
        self._resume()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        fd = self._socket.fileno()
        if self._reading:
            self._loop.remove_reader(fd)
        if self._writing:
            self._loop.remove_writer(fd)
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._socket.close()
        self._server.forget(self)
        self._app.disconnected(self._session)
        # A future only waits, as a delayed fetch does; a task is at work and may finish it.
        if self._awaited is not None and not isinstance(self._awaited, asyncio.Task):
            self._awaited.cancel()

    # reading

    def _readable(self) -> None:
        if self._full() or self._behind:
            if self._held and self._is_gone():
                self.close()
                return
            # Left in the socket, so that TCP's flow control slows the client down.
            self._pause()
            if isinstance(self._awaited, DelayedResponse):
                self._awaited.complete_now()
            return
        wire = self._wire
        try:
            if self._stream is not None and wire.has_more:
                count = self._stream.recv_all_into(wire.get_buffer(RECEIVE_BYTES))
            else:
                count = self._socket.recv_into(wire.get_buffer(RECEIVE_BYTES))
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, MemoryError) as error:
            self._broken(error)
            return
        if count == 0:
            self.close()
            return
        self.active_at = self._loop.time()
        wire.received(count)
        self._serve()
        if self._stream is not None:
            self._read_on()

    def _read_on(self) -> None:
        """Look in the next turn for bytes that OpenSSL has buffered. The kernel does not know about
        them, so the loop would not call us."""
        stream = self._stream
        if stream is None or self.closed or not self._reading or self._reading_on:
            return
        if stream.pending():
            self._reading_on = True
            self._loop.call_soon(self._read_more)

    def _read_more(self) -> None:
        self._reading_on = False
        if not self.closed and self._reading:
            self._readable()

    def _is_gone(self) -> bool:
        """True if the client has closed its end; what it has sent stays unread."""
        if self._stream is not None:
            return self._stream.is_gone()
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def _full(self) -> bool:
        return (
            self._held
            or self._ordered
            or self._overlapping >= OVERLAPPING_PRODUCES_MAX
            or self.outbox.size > OUTBOX_BYTES_MAX
        )

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())

    def _resume(self) -> None:
        """Continue after a wait: first with the buffer, then with the socket."""
        self._serve()
        if not (self.closed or self._reading or self._behind or self._full()):
            self._reading = True
            self._loop.add_reader(self._socket.fileno(), self._readable)
            if self._stream is not None:
                self._read_on()

    def _serve(self) -> None:
        """Serve the requests that have arrived, for as long as the client takes the replies."""
        try:
            rounds = 0
            while not self.closed and self._answer_some():
                self._flush()
                rounds += 1
                if rounds == TURN_ROUNDS_MAX:
                    self._yield()
                    break
        except ProtocolError as error:
            log.warning("Closing connection of %s:%d: %s", *self.peer, error)
            if self._authenticator is None:
                self.close()
            else:
                self._refuse(self._authenticator, [])
            return
        except Exception:
            log.exception("Closing connection of %s:%d: the broker failed", *self.peer)
            self.close()
            return
        self._wire.settle()
        self._flush()

    def _answer_some(self) -> bool:
        """True if it stopped only for the size of the replies: there may be more to serve."""
        if self._authenticator is not None and not self._pass(self._authenticator):
            return False
        wire, dispatch, session = self._wire, self._app.dispatch, self._session
        expiring = self._expiring
        count = 0
        while not self._full():
            if count == TURN_REQUESTS_MAX:
                self._yield()
                return False
            request = wire.next_request()
            if request is None:
                return False
            count += 1
            if expiring is not None and self._is_over(expiring, request):
                return not self.closed
            answer = dispatch(session, request)
            if isinstance(answer, (asyncio.Future, CoroutineType)):
                self._await(request, answer)
            else:
                self.outbox.push(wire.reply(request, answer))
        return not self._held and not self._writing and self.outbox.size > OUTBOX_BYTES_MAX

    def _yield(self) -> None:
        """Continue after the other connections have had their turn."""
        if not self._behind:
            self._behind = True
            self._loop.call_soon(self._catch_up)

    def _catch_up(self) -> None:
        self._behind = False
        if not self.closed:
            self._resume()

    # authentication

    def _pass(self, authenticator: Authenticator) -> bool:
        """Let the authenticator serve the client; True once it has authenticated."""
        wire = self._wire
        while not self._full():
            request = wire.next_token() if authenticator.raw else wire.next_request()
            if request is None:
                return False
            if self._is_through(authenticator, request):
                return True
        return False

    def _is_through(self, authenticator: Authenticator, request: Request) -> bool:
        bare = authenticator.raw  # before `serve`, which may change what the client sends next
        answer = authenticator.serve(request)
        wire = self._wire
        parts = wire.reply_token(request, answer) if bare else wire.reply(request, answer)
        if authenticator.failed:
            self._refuse(authenticator, parts)
            return False
        self.outbox.push(parts)
        if not authenticator.passed:
            return False
        self._authenticator = None
        self._expiring = authenticator if authenticator.expires else None
        wire.restrict(self._app.served, self._server.frame_bytes_max)
        return True

    def _is_over(self, authenticator: Authenticator, request: Request) -> bool:
        """True if this request is a re-authentication, or comes after the session has expired."""
        if authenticator.is_reauthentication(request):
            self._authenticator = authenticator
            self.opened_at = self._loop.time()
            self._wire.restrict(authenticator.served, authenticator.frame_bytes_max)
            self._is_through(authenticator, request)
            return True
        if authenticator.has_expired():
            log.info("Closing connection of %s:%d: its session has expired", *self.peer)
            self.close()
            return True
        return False

    def _refuse(self, authenticator: Authenticator, parts: list[Part]) -> None:
        """Answer and close after connection.failed.authentication.delay.ms, to slow down the
        guessing of passwords. Only a timer waits; the broker does not."""
        self._draining = self._held = True
        authenticator.reject()
        self._loop.call_later(authenticator.delay_ms / 1000, self._refuse_now, parts)

    def _refuse_now(self, parts: list[Part]) -> None:
        if not self.closed:
            self.outbox.push(parts)
            self._flush()
            self.close()

    # responses that wait

    def _await(self, request: Request, answer: Awaitable[Any]) -> None:
        future = asyncio.ensure_future(answer, loop=self._loop)
        if request.api_key == PRODUCE:
            self._overlapping += 1
        else:
            self._held = True
            self._awaited = future
        future.add_done_callback(self._finisher(request))
        if isinstance(future, DelayedResponse) and self._wire.has_more:
            future.complete_now()

    def _finisher(self, request: Request) -> Callable[[asyncio.Future[Any]], None]:
        def finish(future: asyncio.Future[Any]) -> None:
            self._answered(request, future)

        return finish

    def _answered(self, request: Request, future: asyncio.Future[Any]) -> None:
        if request.api_key == PRODUCE:
            self._overlapping -= 1
        else:
            self._held = self._draining or self._mute_timer is not None
            self._awaited = None
        if future.cancelled():
            self.close()
            return
        error = future.exception()
        if self.closed:
            return
        if isinstance(error, ProtocolError):
            log.warning("Closing connection of %s:%d: %s", *self.peer, error)
            self.close()
            return
        if error is not None:
            log.error("Closing connection of %s:%d", *self.peer, exc_info=error)
            self.close()
            return
        self.active_at = self._loop.time()
        try:
            self.outbox.push(self._wire.reply(request, future.result()))
        except Exception:
            log.exception("Closing connection of %s:%d: the broker failed", *self.peer)
            self.close()
            return
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
        before = self.outbox.size
        try:
            done = self.outbox.flush()
        except OSError as error:
            self._broken(error)
            return
        if self.outbox.size < before:
            self.active_at = self._loop.time()
        if done:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())
            self._resume()

    def _broken(self, error: Exception) -> None:
        if not isinstance(error, (ConnectionResetError, BrokenPipeError)):
            log.warning("Closing connection of %s:%d: %r", *self.peer, error)
        self.close()
