"""Listeners and the connections they accepted."""

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
from ottla.net.flow import (
    ACCEPT_PAUSE_S,
    ACCEPTS_PER_TURN,
    AUTHENTICATION_S_MAX,
    REQUEST_S_MAX,
    SCRATCH_BYTES,
    SWEEP_INTERVAL_S,
    THROTTLED_SOCKETS_MAX,
    TLS_CHUNK_BYTES,
)
from ottla.net.handshakes import HUNG_UP, Handshakes
from ottla.net.inbound import Application, Channel
from ottla.net.listener_tls import ListenerTls
from ottla.net.tls_stream import HANGUP, TlsStream

# A machine without IPv6 refuses an address of it in one of these ways.
NO_SUCH_FAMILY: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
MAPPED: Final = "::ffff:"  # an IPv4 client of an IPv6 socket

log = logging.getLogger("ottla.net")


class Server:
    """Serves one application on any number of listeners. `idle_s_max` below 0 means for ever."""

    def __init__(
        self,
        app: Application,
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
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))  # every connection receives into it
        self.tls_scratch = memoryview(bytearray(TLS_CHUNK_BYTES))  # and is sent to by way of this
        self.loop = asyncio.get_running_loop()
        self.connections_max = connections_max  # these three may be changed at any time
        self.connections_per_ip_max = connections_per_ip_max
        self.connections_per_ip_overrides = connections_per_ip_overrides or {}
        self._idle_s_max = idle_s_max
        self.request_s_max = REQUEST_S_MAX
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
        self._complained_at = float("-inf")
        self._sweep_interval_s = SWEEP_INTERVAL_S
        if 0 <= idle_s_max < 2 * SWEEP_INTERVAL_S:
            self._sweep_interval_s = max(idle_s_max / 2, 0.05)
        self._sweep_timer = self.loop.call_later(self._sweep_interval_s, self._sweep)

    @property
    def connection_count(self) -> int:
        return len(self._channels) + len(self._handshakes)

    def listen(self, listener: str, host: str, port: int, *, tls: ListenerTls | None = None) -> int:
        """Bind; returns the port (of use when `port` is 0). Clients queue until `accept`."""
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
        """No new requests; produces under way are answered; then everything is closed.

        Fetches and members of groups that wait for something are not waited for.
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
                self._keep_out(sock, host, wait_ms)
                continue
            try:
                self._take(sock, (host, int(address[1])), listener)
            except (OSError, KafkaError) as error:  # the client is gone again
                log.info("a connection from %s ended at once: %s", host, error)
                sock.close()
            if pause_ms:
                self._pause_accepting(pause_ms / 1000)
                return

    def _accept_failed(self, error: OSError, listening: socket.socket, listener: str) -> None:
        """Mostly there is no descriptor left; what else it may be does not last either."""
        self._complain(f"listener {listener}: no connection can be accepted: {error}")
        self.loop.remove_reader(listening.fileno())
        self.loop.call_later(ACCEPT_PAUSE_S, self._accept_again, listening, listener)

    def _pause_accepting(self, pause_s: float) -> None:
        """max.connection.creation.rate: everybody else waits in the backlog."""
        for listening, listener in self._listeners.items():
            self.loop.remove_reader(listening.fileno())
            self.loop.call_later(pause_s, self._accept_again, listening, listener)

    def _keep_out(self, sock: socket.socket, host: str, wait_ms: int) -> None:
        """A client that is sent away at once would come again at once (KIP-612)."""
        self._complain(f"a connection from {host} is over its connection_creation_rate")
        if len(self._throttled) >= THROTTLED_SOCKETS_MAX:
            sock.close()
            return
        self._throttled[sock] = self.loop.call_later(wait_ms / 1000, self._send_away, sock)

    def _send_away(self, sock: socket.socket) -> None:
        del self._throttled[sock]
        sock.close()

    def _accept_again(self, listening: socket.socket, listener: str) -> None:
        if listening in self._listeners:
            self.loop.add_reader(listening.fileno(), self._accept, listening, listener)

    def _take(self, sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
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
            self._shaken(stream, reason, peer, listener)

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

    def _shaken(
        self, stream: TlsStream | None, reason: str, peer: tuple[str, int], listener: str
    ) -> None:
        """A TLS handshake has ended; `reason` is why it failed, if it did."""
        if stream is None:
            self._uncount(peer[0])
            if reason == HUNG_UP:  # it only looked whether somebody is there
                return
            self.app.rejected(listener, reason)
            self._complain(f"Failed authentication with {peer[0]} (SSL handshake failed: {reason})")
            return
        try:
            self._open(stream, peer, listener)
        except (OSError, KafkaError) as error:
            self._complain(f"Failed authentication with {peer[0]} ({error})")
            self.app.rejected(listener, str(error))
            stream.close()

    def _refuse(self, sock: socket.socket, host: str, limit: str) -> None:
        sock.close()
        self._complain(f"refused a connection from {host}: {limit} is reached")

    def _complain(self, message: str) -> None:
        now = self.loop.time()
        if now - self._complained_at > 1.0:  # one line a second, however many knock
            self._complained_at = now
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
        for channel in [c for c in self._channels if c.active_at < limit and not c.waiting]:
            log.info("closing the connection of %s:%d: idle", *channel.peer)
            channel.close()

    def _close_slow(self) -> None:
        for channel in [c for c in self._channels if c.is_slow(self.request_s_max)]:
            log.info("closing the connection of %s:%d: its request does not end", *channel.peer)
            channel.close()

    def _close_unauthenticated(self) -> None:
        limit = self.loop.time() - AUTHENTICATION_S_MAX
        for channel in [c for c in self._channels if c.authenticating and c.opened_at < limit]:
            log.info("closing the connection of %s:%d: it did not authenticate", *channel.peer)
            channel.close()

    def _close_hung_up(self) -> None:
        """Clients that left while they waited, with requests behind the one that waits."""
        unheard = {channel.fileno(): channel for channel in self._channels if channel.unheard}
        poll = select.poll()
        for fd in unheard:
            poll.register(fd, HANGUP)
        for fd, _ in poll.poll(0) if unheard else ():
            unheard[fd].close()


def _addresses(host: str, port: int) -> Iterator[tuple[int, tuple[str, int]]]:
    """Where to listen, the best first. As in Java every interface is those of IPv6 as well, and
    a name means its IPv4 address if it has one."""
    if not host:
        yield socket.AF_INET6, ("::", port)
        yield socket.AF_INET, ("0.0.0.0", port)
        return
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)  # stable: else as the system says
    yield found[0][0], found[0][4]  # type: ignore[misc]
