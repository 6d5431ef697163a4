"""A network that can be cut: every TCP connection of a test goes through it.

    with Network() as network:
        door = network.door("client", "broker", broker_port)  # connect to door.port instead
        network.cut("client", "broker")                       # silence, both ways; nothing is lost
        network.cut_one_way("broker", "client")               # requests arrive, answers do not
        network.delay("client", "broker", 0.2)
        network.heal()                                        # what waited arrives now
        network.heal(reset=True)                              # or: connections that were cut, break
        door.shut()                                           # refused, as if nobody listened
        door.open()

A cut is what a pulled cable is to TCP: bytes wait, nobody is told, and they arrive when the cable
is back, unless one of the two has lost its patience. It runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Final, Self

HOST: Final = "127.0.0.1"
CHUNK_SIZE: Final = 1 << 16
CALL_S_MAX: Final = 10.0
CLOSING_ROUNDS: Final = 10

Opener = str | Callable[[int], str]
"""Who connects: a name, or a function from the port that a connection comes from."""


class Network:
    """Doors between named parties, and what happens to bytes on their way between two of them."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str], Flow] = {}
        self._doors: list[Door] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Every connection breaks, every door is gone. Stopping twice is stopping once."""
        if not self._thread.is_alive():
            return
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
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

    def door(self, opener: Opener, target: str, target_port: int) -> Door:
        """A port that leads to `target_port` of this machine, where `target` listens."""
        door = Door(self, opener, target, target_port)
        self._doors.append(door)
        door.open()
        return door

    # What can happen to it

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between the two."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, source: str, target: str) -> None:
        """What `source` says does not reach `target`; the other way is open."""
        self._do(lambda: self.flow(source, target).shut())

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Everything between the two takes so much longer, each way."""

        def slow() -> None:
            for flow in self._both(one, other):
                flow.delay_s = seconds

        self._do(slow)

    def heal(
        self, one: str | None = None, other: str | None = None, *, reset: bool = False
    ) -> None:
        """All is well again, or only between these two; `reset` breaks the connections that a cut
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

        self._do(mend)

    # Used by its doors, on the loop

    def flow(self, source: str, target: str) -> Flow:
        return self._flows.setdefault((source, target), Flow())

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        self._call(work)

    def _both(self, one: str, other: str) -> Iterator[Flow]:
        yield self.flow(one, other)
        yield self.flow(other, one)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _do(self, action: Callable[[], object]) -> None:
        async def act() -> None:
            action()

        self._call(act())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S_MAX)

    async def _close(self) -> None:
        for door in self._doors:
            await door.close()
        for _ in range(CLOSING_ROUNDS):  # who was accepted before is served a few turns later
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.01)  # and sockets are closed a turn after they were aborted


class Flow:
    """One direction between two parties, of all their connections."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.delay_s = 0.0
        self.connections: set[Connection] = set()

    @property
    def is_cut(self) -> bool:
        return not self.opened.is_set()

    def shut(self) -> None:
        self.opened.clear()

    def reset(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def passage(self) -> None:
        """Returns when a byte that has come so far comes out at the other end."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self.opened.wait()


class Door:
    """A port of the network. `port` stays its own while it is shut."""

    def __init__(self, network: Network, opener: Opener, target: str, target_port: int) -> None:
        self._network = network
        self._opener = opener
        self._target = target
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        # Bound, and not listening: nobody else is given the port, and who connects is refused.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((HOST, 0))
        self.port: int = self._reserved.getsockname()[1]

    def open(self) -> None:
        self._network.call(self._listen())

    def shut(self) -> None:
        """Who connects is refused; connections that are there stay."""
        self._network.call(self._stop_listening())

    async def close(self) -> None:
        await self._stop_listening()
        self._reserved.close()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(
                self._accept, HOST, self.port, reuse_address=True
            )

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer)
        peer = writer.get_extra_info("peername")
        if peer is None:  # it has gone already
            connection.abort()
            return
        port: int = peer[1]
        task = self._network.spawn(self._serve(reader, connection, port))
        task.add_done_callback(lambda _: connection.abort())  # it may end before it has begun

    async def _serve(self, reader: asyncio.StreamReader, connection: Connection, port: int) -> None:
        opener = self._opener if isinstance(self._opener, str) else self._opener(port)
        there = self._network.flow(opener, self._target)
        back = self._network.flow(self._target, opener)
        for flow in (there, back):
            flow.connections.add(connection)
        try:
            await there.passage()  # a connection is made by a word each way
            await back.passage()
            await connection.carry(reader, there, back, self._target_port)
        finally:
            for flow in (there, back):
                flow.connections.discard(connection)


class Connection:
    """The two sockets of one connection, and the bytes between them."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writers = [writer]
        self._aborted = False

    def abort(self) -> None:
        """Both ends see it break."""
        self._aborted = True
        for writer in self._writers:
            writer.transport.abort()

    async def carry(
        self, reader: asyncio.StreamReader, there: Flow, back: Flow, target_port: int
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, target_port)
        except OSError:
            return
        self._writers.append(far_writer)
        if self._aborted:  # meanwhile
            self.abort()
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, far_writer, there))
            group.create_task(pump(far_reader, self._writers[0], back))


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: Flow) -> None:
    """Bytes from one to the other until the end, which travels as they do."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_SIZE):
            await flow.passage()
            writer.write(data)
            await writer.drain()
    await flow.passage()
    with contextlib.suppress(OSError):
        writer.close()
