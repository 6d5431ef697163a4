"""Turns of connections, closed connections, and responses for disconnected clients."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
from typing import Any

import pytest
from test_server import Client, Connect, Toy, serve, until

from ottla.net.limits import ACCEPT_PAUSE_S, OUTBOX_BYTES_MAX, TURN_REQUESTS_MAX
from ottla.net.server import Server
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.peer import Peer


class Large(ApiVersionsResponse):
    """A response of half a megabyte."""

    def write(self, writer: Any, version: int) -> None:
        writer.buffer += bytes(500_000)


class Broken(HeartbeatResponse):
    def write(self, writer: Any, version: int) -> None:
        raise ValueError("a response that cannot be written")


def reset(client: Client) -> None:
    sock: socket.socket = client.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.close()


def test_endless_pipelining_does_not_starve_other_clients() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        greedy, modest = await connect(), await connect()
        count = 20 * TURN_REQUESTS_MAX
        for number in range(count):
            greedy.heartbeat(number)
        modest.heartbeat(-1)
        modest_at = 0

        def dispatch(session: Any, request: Request) -> Any:
            nonlocal modest_at
            toy.seen.append(request)
            number = request.body.generation_id  # type: ignore[union-attr]
            if number == -1:
                modest_at = len(toy.seen)
            return HeartbeatResponse(throttle_time=number)

        toy.dispatch = dispatch  # type: ignore[method-assign]
        assert (await modest.receive()).throttle_time == -1
        answers = [(await greedy.receive()).throttle_time for _ in range(count)]
        assert answers == list(range(count))
        assert modest_at < count / 2

    serve(test)


def test_a_fast_reader_does_not_starve_other_clients() -> None:
    """The loop goes on between rounds, however fast the reader is."""

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        turns: set[int] = set()
        turn = 0

        def tick() -> None:
            nonlocal turn
            turn += 1
            server.loop.call_soon(tick) if turn < 100_000 else None

        def dispatch(session: Any, request: Request) -> Any:
            toy.seen.append(request)
            turns.add(turn)
            return Large()

        toy.dispatch = dispatch  # type: ignore[method-assign]
        client = await connect()
        server.loop.call_soon(tick)
        asked = ApiVersionsRequest("x", "1")
        for _ in range(60):
            client.send(asked, ApiKey.API_VERSIONS, 3)
        received = 0
        while received < 60 * 500_008:
            received += len(await asyncio.wait_for(client.reader.read(1 << 20), 60))
        assert len(toy.seen) == 60
        assert len(turns) > 3
        turn = 100_000

    serve(test)


def test_hanging_up_cancels_the_waiting_requests() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        toy.wait = True
        for leave in (lambda client: client.writer.close(), reset):
            client = await connect()
            client.heartbeat(1)
            await until(lambda: len(toy.waiting) == 1)
            leave(client)
            await until(lambda: server.connection_count == 0)
            assert toy.waiting.pop().cancelled()
            assert toy.sessions == []

    serve(test)


def test_begun_work_is_finished_after_the_client_left() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        gate, done = asyncio.Event(), asyncio.Event()

        async def work() -> HeartbeatResponse:
            await gate.wait()
            done.set()
            return HeartbeatResponse()

        def dispatch(session: Any, request: Request) -> Any:
            toy.seen.append(request)
            return work()

        toy.dispatch = dispatch  # type: ignore[method-assign]
        client = await connect()
        client.heartbeat(1)
        await until(lambda: len(toy.seen) == 1)
        client.writer.close()
        await until(lambda: server.connection_count == 0)
        gate.set()
        await asyncio.wait_for(done.wait(), 60)

    serve(test)


def test_a_broken_connection_serves_no_more_requests(caplog: pytest.LogCaptureFixture) -> None:
    """The client is gone before the first reply is sent; hundreds of requests are behind it."""

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        (listening,) = server._listeners
        raw = socket.create_connection(listening.getsockname())
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def dispatch(session: Any, request: Request) -> Any:
            toy.seen.append(request)
            raw.close()
            return Large()

        toy.dispatch = dispatch  # type: ignore[method-assign]
        peer = Peer()
        for _ in range(200):
            parts = peer.request(ApiVersionsRequest("x", "1"), ApiKey.API_VERSIONS, 3)
            raw.sendall(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]
        await until(lambda: len(toy.seen) > 0)
        await until(lambda: server.connection_count == 0)
        await asyncio.sleep(0.01)
        assert len(toy.seen) == OUTBOX_BYTES_MAX // 500_000 + 1

    serve(test)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_unwritable_late_answer_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.wait = True
        client.heartbeat(1)
        await until(lambda: len(toy.waiting) == 1)
        toy.waiting[0].set_result(Broken())
        assert await client.closed()
        assert server.connection_count == 0

    serve(test)
    assert "a response that cannot be written" in caplog.text


def test_a_stop_reads_no_more_requests() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client, held = await connect(), await connect()
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        toy.wait = True
        held.heartbeat(1)
        await until(lambda: len(toy.waiting) == 2)
        stopping = asyncio.ensure_future(server.stop(60))
        await asyncio.sleep(0.01)
        client.heartbeat(2)
        await asyncio.sleep(0.01)
        assert not stopping.done()
        produce = next(request for request in toy.seen if request.api_key == ApiKey.PRODUCE)
        toy.waiting[toy.seen.index(produce)].set_result(ProduceResponse(throttle_time=5))
        assert (await client.receive()).throttle_time == 5
        await stopping
        assert len(toy.seen) == 2
        assert await client.closed()
        assert await held.closed()

    serve(test)


def test_idle_connections_may_live_forever() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.heartbeat(1)
        await client.receive()
        server._sweep()
        client.heartbeat(2)
        assert (await client.receive()).throttle_time == 2

    serve(test, idle_s_max=-0.001)


def test_a_request_must_arrive_in_time() -> None:
    """A request sent in drips times out; a client of the same pace with whole requests stays."""

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        server.request_s_max = 0.2
        slow, other = await connect(), await connect()
        slow.writer.write(struct.pack(">i", 1000))
        began = server.loop.time()
        closing = asyncio.ensure_future(slow.closed())
        number = 0
        while not closing.done():
            number += 1
            other.heartbeat(number)
            assert (await other.receive()).throttle_time == number
            slow.writer.write(b"\0")
            server._close_slow()
            await asyncio.sleep(0.02)
        assert server.loop.time() - began >= 0.2
        assert server.connection_count == 1

    serve(test)


def test_a_slow_reader_is_not_idle() -> None:
    """It reads its response in small pieces, with pauses below the limit."""

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        def dispatch(session: Any, request: Request) -> Any:
            return Large()

        toy.dispatch = dispatch  # type: ignore[method-assign]
        client = await connect()
        transport: Any = client.writer.transport
        transport.pause_reading()
        total = 40
        for _ in range(total):
            client.send(ApiVersionsRequest("x", "1"), ApiKey.API_VERSIONS, 3)
        received = 0
        sock: socket.socket = client.writer.get_extra_info("socket")
        began = server.loop.time()
        with socket.socket(fileno=os.dup(sock.fileno())) as raw:
            raw.setblocking(False)
            while received < total * 500_008:
                await asyncio.sleep(0.09)
                try:
                    received += len(raw.recv(800_000))
                except BlockingIOError:
                    continue
        assert server.loop.time() - began > 1.5
        assert server.connection_count == 1

    serve(test, idle_s_max=1.5)


def test_without_descriptors_the_listener_pauses_and_resumes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class ExhaustedSocket:
        """A listening socket in a process without free descriptors."""

        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock
            self.tries = 0

        def fileno(self) -> int:
            return self.sock.fileno()

        def accept(self) -> Any:
            self.tries += 1
            if self.tries <= 2:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return self.sock.accept()

        def close(self) -> None:
            self.sock.close()

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        ((sock, name),) = server._listeners.items()
        server.loop.remove_reader(sock.fileno())
        exhausted: Any = ExhaustedSocket(sock)
        server._listeners = {exhausted: name}
        server.accept()
        began = server.loop.time()
        client = await connect()
        client.heartbeat(1)
        assert (await client.receive()).throttle_time == 1
        assert server.loop.time() - began >= ACCEPT_PAUSE_S
        assert exhausted.tries == 4  # two that failed, the client, and one without a connection

    serve(test)
    assert len(caplog.records) == 1
    assert "cannot accept connections" in caplog.text


def test_limits_can_change_and_exclude_addresses() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        assert await (await connect()).closed()
        server.connections_per_ip_overrides = {"127.0.0.1": 1}
        client = await connect()
        client.heartbeat(1)
        await client.receive()
        assert await (await connect()).closed()
        server.connections_per_ip_overrides = {}
        server.connections_per_ip_max = 2
        second = await connect()
        second.heartbeat(2)
        await second.receive()
        server.connections_max = 1
        server.connections_per_ip_max = 100
        assert await (await connect()).closed()

    serve(test, connections_per_ip_max=0)


@pytest.mark.parametrize("host", ["", "::", "localhost", "127.0.0.1"])
def test_ipv4_clients_reach_every_kind_of_listener(host: str) -> None:
    """Clients have their IPv4 address, whatever the socket."""

    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        port = server.listen("OTHER", host, 0)
        server.accept()
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        client.heartbeat(1)
        assert (await client.receive()).throttle_time == 1
        assert toy.sessions == [("OTHER", "127.0.0.1")]
        client.writer.close()

    serve(test)


def test_ipv6_clients_reach_the_listener_of_every_interface() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        port = server.listen("OTHER", "", 0)
        server.accept()
        client = Client(*await asyncio.open_connection("::1", port))
        client.heartbeat(1)
        assert (await client.receive()).throttle_time == 1
        assert toy.sessions == [("OTHER", "::1")]
        client.writer.close()

    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    serve(test)


def test_a_machine_without_ipv6_listens_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        bind = server._bind

        def without(family: int, address: tuple[str, int]) -> socket.socket:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
            return bind(family, address)

        monkeypatch.setattr(server, "_bind", without)
        port = server.listen("OTHER", "", 0)
        server.accept()
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        client.heartbeat(1)
        assert (await client.receive()).throttle_time == 1
        client.writer.close()

    serve(test)
