"""Listeners and the connections they accepted."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter

from ottla.net.flow import ACCEPT_PAUSE_S, ACCEPTS_PER_TURN, SCRATCH_BYTES
from ottla.net.inbound import Application, Channel

log = logging.getLogger("ottla.net")


class Server:
    """Serves one application on any number of listeners."""

    def __init__(
        self,
        app: Application,
        *,
        frame_bytes_max: int,
        connections_max: int,
        connections_per_ip_max: int,
        idle_s_max: float,
        backlog: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.app = app
        self.frame_bytes_max = frame_bytes_max
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))  # every connection receives into it
        self.loop = asyncio.get_running_loop()
        self._connections_max = connections_max
        self._connections_per_ip_max = connections_per_ip_max
        self._idle_s_max = idle_s_max
        self._backlog = backlog
        self._buffers = (
            (socket.SO_SNDBUF, send_buffer_bytes),
            (socket.SO_RCVBUF, receive_buffer_bytes),
        )
        self._listeners: dict[socket.socket, str] = {}
        self._channels: set[Channel] = set()
        self._per_ip: Counter[str] = Counter()
        self._refused_at = float("-inf")
        self._idle_timer = self.loop.call_later(max(idle_s_max / 2, 0.05), self._close_idle)

    @property
    def connection_count(self) -> int:
        return len(self._channels)

    def listen(self, listener: str, host: str, port: int) -> int:
        """Bind; returns the port (of use when `port` is 0). Clients queue until `accept`."""
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._size_buffers(sock)  # before listen, so that the window can be scaled
            sock.bind(address)
            sock.listen(self._backlog)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        self._listeners[sock] = listener
        return int(sock.getsockname()[1])

    def accept(self) -> None:
        for sock, listener in self._listeners.items():
            self.loop.add_reader(sock.fileno(), self._accept, sock, listener)

    def forget(self, channel: Channel) -> None:
        self._channels.discard(channel)
        host = channel.peer[0]
        self._per_ip[host] -= 1
        if self._per_ip[host] <= 0:
            del self._per_ip[host]

    def stop_accepting(self) -> None:
        for sock in self._listeners:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listeners.clear()

    async def stop(self, grace_s: float) -> None:
        """No new connections; produces under way are answered; then everything is closed."""
        self.stop_accepting()
        self._idle_timer.cancel()
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
            self._take(sock, (str(address[0]), int(address[1])), listener)

    def _accept_failed(self, error: OSError, listening: socket.socket, listener: str) -> None:
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            log.error("listener %s: accept failed: %s", listener, error)
        else:
            log.error("listener %s: no descriptor left for a new connection: %s", listener, error)
        self.loop.remove_reader(listening.fileno())
        self.loop.call_later(ACCEPT_PAUSE_S, self._accept_again, listening, listener)

    def _accept_again(self, listening: socket.socket, listener: str) -> None:
        if listening in self._listeners:
            self.loop.add_reader(listening.fileno(), self._accept, listening, listener)

    def _take(self, sock: socket.socket, peer: tuple[str, int], listener: str) -> None:
        host = peer[0]
        if len(self._channels) >= self._connections_max:
            self._refuse(sock, host, f"max.connections ({self._connections_max})")
            return
        if self._per_ip[host] >= self._connections_per_ip_max:
            self._refuse(sock, host, f"max.connections.per.ip ({self._connections_per_ip_max})")
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._per_ip[host] += 1
        self._channels.add(Channel(self, sock, peer, listener))

    def _refuse(self, sock: socket.socket, host: str, limit: str) -> None:
        sock.close()
        now = self.loop.time()
        if now - self._refused_at > 1.0:  # one line a second, however many knock
            self._refused_at = now
            log.warning("refused a connection from %s: %s is reached", host, limit)

    def _close_idle(self) -> None:
        limit = self.loop.time() - self._idle_s_max
        for channel in [c for c in self._channels if c.active_at < limit and not c.waiting]:
            log.info("closing the connection of %s:%d: idle", *channel.peer)
            channel.close()
        self._idle_timer = self.loop.call_later(max(self._idle_s_max / 2, 0.05), self._close_idle)
