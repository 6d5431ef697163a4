"""A network of TCP proxies that a test can cut, delay and reset.

    with Network() as network:
        proxy = network.proxy("client", "broker", port)  # connect to proxy.port instead
        network.cut("client", "broker")                  # silence, both ways; nothing is lost
        network.cut_one_way("broker", "client")          # requests arrive, responses do not
        network.delay("client", "broker", 0.2)
        network.heal()                                   # delayed bytes arrive now
        network.heal(reset=True)                         # or: break cut connections
        proxy.shut()                                     # refuses connections
        proxy.open()

A cut is what a pulled cable is to TCP: bytes wait, no peer gets an error, and they arrive when the
cable is back, unless a peer has timed out. The network runs in its own thread.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
CHUNK_SIZE: Final = 1 << 16
BACKLOG_MAX: Final = 100
CALL_S_MAX: Final = 10.0

Opener = str | Callable[[int], str]
"""The connecting party: a name, or a function from a connection's source port to a name."""


class Network:
    """Proxies between named parties, and what happens to the bytes between two of them."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str], Link] = {}
        self._proxies: list[Proxy] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Break every connection and remove every proxy. A second stop does nothing."""
        if not self._thread.is_alive():
            return
        self._call(self._close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_S_MAX)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def proxy(self, opener: Opener, target: str, target_port: int) -> Proxy:
        """A port that forwards to `target_port` of this machine, where `target` listens."""
        proxy = Proxy(self, opener, target, target_port)
        self._proxies.append(proxy)
        proxy.open()
        return proxy

    # Faults

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between the two."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: str, target: str) -> None:
        """No bytes from `source` reach `target`; the other direction is open."""
        self.do(lambda: self.flow(source, target).shut())

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Delay everything between the two, in each direction."""

        def slow() -> None:
            for flow in self._both(one, other):
                flow.delay_s = seconds

        self.do(slow)

    def heal(
        self, one: str | None = None, other: str | None = None, *, reset: bool = False
    ) -> None:
        """Remove all faults, or those between these two; `reset` breaks the connections that a cut
        had stopped, as if TCP had given up on them."""

        def mend() -> None:
            pair = {(one, other), (other, one)}
            chosen = [f for key, f in self._flows.items() if one is None or key in pair]
            for flow in chosen:
                if reset and flow.is_cut:
                    flow.reset()
            for flow in chosen:
                flow.delay_s = 0.0
                flow.opened.set()

        self.do(mend)

    # For the proxies, on the loop

    def flow(self, source: str, target: str) -> Link:
        return self._flows.setdefault((source, target), Link())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def do(self, action: Callable[[], object]) -> None:
        """Run an action on the loop; it is done when this returns."""

        async def act() -> None:
            action()

        self._call(act())

    def _both(self, one: str, other: str) -> Iterator[Link]:
        yield self.flow(one, other)
        yield self.flow(other, one)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_S_MAX)

    async def _close(self) -> None:
        for proxy in self._proxies:
            proxy.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Link:
    """One direction between two parties, for all their connections."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.delay_s = 0.0
        self.connections: set[ProxiedConnection] = set()

    @property
    def is_cut(self) -> bool:
        return not self.opened.is_set()

    def shut(self) -> None:
        self.opened.clear()

    def reset(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def passage(self) -> None:
        """Returns when a byte sent now would arrive at the other end."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self.opened.wait()


class Proxy:
    """A listening port of the network. It keeps its `port` while it is shut."""

    def __init__(self, network: Network, opener: Opener, target: str, target_port: int) -> None:
        self._network = network
        self._opener = opener
        self._target = target
        self._target_port = target_port
        self._listener: socket.socket | None = None
        # Bound but not listening: the port stays reserved, and connections are refused.
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]

    def open(self) -> None:
        self._network.do(self._listen)

    def shut(self) -> None:
        """Refuse new connections; existing ones stay."""
        self._network.do(self._stop_listening)

    def close(self) -> None:
        self._stop_listening()
        self._reserved.close()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bound(self.port)
            self._listener.setblocking(False)
            self._listener.listen(BACKLOG_MAX)
            self._network.loop.add_reader(self._listener, self._accept, self._listener)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._network.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        """Accept one socket, which has an owner from the start.

        An asyncio server would leak sockets that it accepts while it is being closed.
        """
        try:
            near, (_, port) = listener.accept()
        except OSError:  # the client has gone already
            return
        connection = ProxiedConnection(self._network.loop, near)
        connection.task = self._network.spawn(self._serve(connection, port))
        connection.task.add_done_callback(lambda _: connection.close())  # even if it never began

    async def _serve(self, connection: ProxiedConnection, port: int) -> None:
        opener = self._opener if isinstance(self._opener, str) else self._opener(port)
        there = self._network.flow(opener, self._target)
        back = self._network.flow(self._target, opener)
        for flow in (there, back):
            flow.connections.add(connection)
        try:
            await there.passage()  # a TCP handshake takes a message in each direction
            await back.passage()
            await connection.carry(there, back, self._target_port)
        finally:
            for flow in (there, back):
                flow.connections.discard(connection)


class ProxiedConnection:
    """The two sockets of one connection, and the bytes between them."""

    task: asyncio.Task[None]

    def __init__(self, loop: asyncio.AbstractEventLoop, near: socket.socket) -> None:
        self._loop = loop
        self._near = near
        self._far = socket.socket()
        for end in (self._near, self._far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def abort(self) -> None:
        """Break the connection for both ends."""
        self.task.cancel()

    def close(self) -> None:
        """Called once nothing waits for the sockets."""
        self._near.close()
        self._far.close()

    async def carry(self, there: Link, back: Link, target_port: int) -> None:
        try:
            await self._loop.sock_connect(self._far, (HOST, target_port))
        except OSError:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(self._near, self._far, there))
            group.create_task(self._pump(self._far, self._near, back))

    async def _pump(self, source: socket.socket, target: socket.socket, flow: Link) -> None:
        """Forward bytes from one to the other until the end of the stream, which is forwarded,
        too."""
        while True:
            try:
                data = await self._loop.sock_recv(source, CHUNK_SIZE)
            except OSError:  # it broke
                await flow.passage()
                self.abort()
                return
            await flow.passage()
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                await self._loop.sock_sendall(target, data)
            except OSError:  # the target is gone: the other direction notices and propagates that
                return


def _bound(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((HOST, port))
    return sock
