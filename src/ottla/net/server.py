"""Listeners, and the connections that they have accepted."""

from __future__ import annotations

import asyncio
import errno
import logging
import select
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.errors import KafkaError
from ottla.net.channel import Channel, RequestHandler
from ottla.net.handshakes import HUNG_UP, Handshakes
from ottla.net.limits import (
    ACCEPT_PAUSE_S,
    ACCEPTS_PER_TURN,
    AUTHENTICATION_LIMIT_S,
    REQUEST_LIMIT_S,
    SCRATCH_BYTES,
    SWEEP_INTERVAL_S,
    THROTTLED_SOCKETS_MAX,
    TLS_CHUNK_BYTES,
)
from ottla.net.listener_tls import ListenerTls
from ottla.net.tls_stream import HANGUP, TlsStream

# A machine without IPv6 refuses an address of it in one of these ways.
NO_SUCH_FAMILY: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
MAPPED: Final = "::ffff:"  # an IPv4 client of an IPv6 socket

log = logging.getLogger("ottla.net")


class Server:
    """Serves requests on any number of listeners. `idle_s_max` below 0 means no limit."""

    def __init__(
        self,
        app: RequestHandler,
        *,
        frame_bytes_max: int,
        connections_max: int,
        connections_per_ip_max: int,
        connections_per_ip_overrides: Mapping[str, int] | None = None,
        idle_s_max: float,
        backlog: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.app = app
        self.frame_bytes_max = frame_bytes_max
        # Shared by all connections, because each is done with them before its turn ends.
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))  # to receive into
        self.tls_scratch = memoryview(bytearray(TLS_CHUNK_BYTES))  # to gather replies in
        self.loop = asyncio.get_running_loop()
        self.connections_max = connections_max  # these three may change at any time
        self.connections_per_ip_max = connections_per_ip_max
        self.connections_per_ip_overrides = connections_per_ip_overrides or {}
        self._idle_s_max = idle_s_max
        self.request_s_max = REQUEST_LIMIT_S
        self._backlog = backlog
        self._buffers = (
            (socket.SO_SNDBUF, send_buffer_bytes),
            (socket.SO_RCVBUF, receive_buffer_bytes),
        )
        self._listeners: dict[socket.socket, str] = {}
        self._tls: dict[str, ListenerTls] = {}  # of the listeners that have it
        self._handshakes = Handshakes(self.loop)
        self._channels: set[Channel] = set()
        self._per_ip: Counter[str] = Counter()
        self._throttled: dict[socket.socket, asyncio.TimerHandle] = {}  # to be closed, later
        self._warned_at = float("-inf")
        self._sweep_interval_s = SWEEP_INTERVAL_S
        if 0 <= idle_s_max < 2 * SWEEP_INTERVAL_S:
            self._sweep_interval_s = max(idle_s_max / 2, 0.05)
        self._sweep_timer = self.loop.call_later(self._sweep_interval_s, self._sweep)

    @property
    def connection_count(self) -> int:
        return len(self._channels) + len(self._handshakes)

    def listen(self, listener: str, host: str, port: int, *, tls: ListenerTls | None = None) -> int:
        """Bind; returns the port, which matters if `port` is 0. Clients queue until `accept`."""
        for family, address in _addresses(host, port):
            try:
                sock = self._bind(family, address)
                break
            except OSError as error:
                if host or family != socket.AF_INET6 or error.errno not in NO_SUCH_FAMILY:
                    raise
        self._listeners[sock] = listener
        if tls is not None:
            self._tls[listener] = tls
        return int(sock.getsockname()[1])

    def _bind(self, family: int, address: tuple[str, int]) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # "::" takes IPv4 clients too, as in Java
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
            self._size_buffers(sock)  # before listen, so that the window can be scaled
            sock.bind(address)
            sock.listen(self._backlog)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    def accept(self) -> None:
        for sock, listener in self._listeners.items():
            self.loop.add_reader(sock.fileno(), self._accept, sock, listener)

    def forget(self, channel: Channel) -> None:
        self._channels.discard(channel)
        self._uncount(channel.peer[0])

    def _uncount(self, host: str) -> None:
        self._per_ip[host] -= 1
        if self._per_ip[host] <= 0:
            del self._per_ip[host]

    def stop_accepting(self) -> None:
        self._sweep_timer.cancel()
        for sock in self._listeners:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listeners.clear()
        self._handshakes.close()
        for sock, timer in self._throttled.items():
            timer.cancel()
            sock.close()
        self._throttled.clear()

    async def stop(self, grace_s: float) -> None:
        """Take no new requests, answer the produces under way, then close all connections.

        Fetches, and group members that wait for others, are cut off: their clients retry elsewhere.
        """
        self.stop_accepting()
        for channel in self._channels:
            channel.drain()
        deadline = self.loop.time() + grace_s
        while self.loop.time() < deadline and any(channel.busy for channel in self._channels):
            await asyncio.sleep(0.005)
        for channel in list(self._channels):
            channel.close()

    def _size_buffers(self, sock: socket.socket) -> None:
        for option, size in self._buffers:
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def _accept(self, listening: socket.socket, listener: str) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(error, listening, listener)
                return
            host = str(address[0]).removeprefix(MAPPED)
            wait_ms, pause_ms = self.app.admit(host)
            if wait_ms:
                self._hold_throttled(sock, host, wait_ms)
                continue
            try:
                self._admit(sock, (host, int(address[1])), listener)
            except (OSError, KafkaError) as error:  # the client has disconnected already
                log.info("Connection from %s ended at once: %s", host, error)
                sock.close()
            if pause_ms:
                self._pause_accepting(pause_ms / 1000)
                return

    def _accept_failed(self, error: OSError, listening: socket.socket, listener: str) -> None:
        """Usually the process is out of descriptors. Pause: without it the loop would spin."""
        self._warn(f"Listener {listener} cannot accept connections: {error}")
        self.loop.remove_reader(listening.fileno())
        self.loop.call_later(ACCEPT_PAUSE_S, self._accept_again, listening, listener)

    def _pause_accepting(self, pause_s: float) -> None:
        """max.connection.creation.rate: further clients wait in the backlog."""
        for listening, listener in self._listeners.items():
            self.loop.remove_reader(listening.fileno())
            self.loop.call_later(pause_s, self._accept_again, listening, listener)

    def _hold_throttled(self, sock: socket.socket, host: str, wait_ms: int) -> None:
        """Close it late, because a client that is closed at once reconnects at once (KIP-612)."""
        self._warn(f"Connection from {host} exceeds its connection_creation_rate")
        if len(self._throttled) >= THROTTLED_SOCKETS_MAX:
            sock.close()
            return
        self._throttled[sock] = self.loop.call_later(wait_ms / 1000, self._close_throttled, sock)

    def _close_throttled(self, sock: socket.socket) -> None:
        del self._throttled[sock]
        sock.close()

    def _accept_again(self, listening: socket.socket, listener: str) -> None:
        if listening in self._listeners:
            self.loop.add_reader(listening.fileno(), self._accept, listening, listener)

    def _admit(self, sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
        host = peer[0]
        if self.connection_count >= self.connections_max:
            self._refuse(sock, host, f"max.connections ({self.connections_max})")
            return
        per_ip_max = self.connections_per_ip_overrides.get(host, self.connections_per_ip_max)
        if self._per_ip[host] >= per_ip_max:
            self._refuse(sock, host, f"max.connections.per.ip ({per_ip_max})")
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        tls = self._tls.get(listener)
        self._per_ip[host] += 1
        if tls is None:
            self._open(sock, peer, listener)
            return

        def finished(stream: TlsStream | None, reason: str) -> None:
            self._handshake_done(stream, reason, peer, listener)

        try:
            self._handshakes.begin(sock, tls.context, finished)
        except BaseException:
            self._uncount(host)
            raise

    def _open(self, sock: socket.socket | TlsStream, peer: tuple[str, int], listener: str) -> None:
        try:
            self._channels.add(Channel(self, sock, peer, listener))
        except BaseException:
            self._uncount(peer[0])
            raise

    def _handshake_done(
        self, stream: TlsStream | None, reason: str, peer: tuple[str, int], listener: str
    ) -> None:
        """A TLS handshake has ended; `reason` is why it failed if `stream` is None."""
        if stream is None:
            self._uncount(peer[0])
            if reason == HUNG_UP:  # as health checks do, which only connect
                return
            self.app.rejected(listener, reason)
            self._warn(f"Failed authentication with {peer[0]} (SSL handshake failed: {reason})")
            return
        try:
            self._open(stream, peer, listener)
        except (OSError, KafkaError) as error:
            self._warn(f"Failed authentication with {peer[0]} ({error})")
            self.app.rejected(listener, str(error))
            stream.close()

    def _refuse(self, sock: socket.socket, host: str, limit: str) -> None:
        sock.close()
        self._warn(f"Rejected connection from {host}: {limit} is reached")

    def _warn(self, message: str) -> None:
        now = self.loop.time()
        if now - self._warned_at > 1.0:  # at most one line a second: clients must not fill the log
            self._warned_at = now
            log.warning("%s", message)

    def _sweep(self) -> None:
        if self._idle_s_max >= 0:
            self._close_idle()
        self._close_slow()
        self._close_unauthenticated()
        self._close_hung_up()
        self._sweep_timer = self.loop.call_later(self._sweep_interval_s, self._sweep)

    def _close_idle(self) -> None:
        limit = self.loop.time() - self._idle_s_max
        for channel in list(self._channels):
            if channel.active_at < limit and not channel.waiting:
                log.info("Closing connection of %s:%d: idle", *channel.peer)
                channel.close()

    def _close_slow(self) -> None:
        for channel in list(self._channels):
            if channel.is_slow(self.request_s_max):
                log.info("Closing connection of %s:%d: its request is too slow", *channel.peer)
                channel.close()

    def _close_unauthenticated(self) -> None:
        limit = self.loop.time() - AUTHENTICATION_LIMIT_S
        for channel in list(self._channels):
            if channel.authenticating and channel.opened_at < limit:
                log.info(
                    "Closing connection of %s:%d: it did not authenticate in time", *channel.peer
                )
                channel.close()

    def _close_hung_up(self) -> None:
        """Close clients that disconnected while a request waits and others are queued behind it.

        Nothing is read from these, so only poll can tell.
        """
        unheard = {channel.fileno(): channel for channel in self._channels if channel.unheard}
        poll = select.poll()
        for fd in unheard:
            poll.register(fd, HANGUP)
        for fd, _ in poll.poll(0) if unheard else ():
            unheard[fd].close()


def _addresses(host: str, port: int) -> Iterator[tuple[int, tuple[str, int]]]:
    """The addresses to listen on, the best first. As in Java, no host means all interfaces with
    IPv6 as well, and a name means its IPv4 address if it has one."""
    if not host:
        yield socket.AF_INET6, ("::", port)
        yield socket.AF_INET, ("0.0.0.0", port)
        return
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # stable: else as the system says
    yield found[0][0], found[0][4]  # type: ignore[misc]
