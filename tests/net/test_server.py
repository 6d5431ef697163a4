"""The server, with a small application instead of a broker: order, waiting, limits, bad input."""

from __future__ import annotations

import asyncio
import logging
import os
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.net.limits import OUTBOX_BYTES_MAX, OVERLAPPING_PRODUCES_MAX
from ottla.net.loop import run
from ottla.net.server import Server
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse
from ottla.wire.peer import Peer

SERVED = {ApiKey.PRODUCE: (3, 9), ApiKey.HEARTBEAT: (0, 4), ApiKey.API_VERSIONS: (0, 4)}
FRAME_BYTES_MAX = 1_000_000


class Toy:
    """Answers Heartbeat at once or on demand, Produce on demand, ApiVersions with a large body."""

    def __init__(self) -> None:
        self.served = {int(key): versions for key, versions in SERVED.items()}
        self.seen: list[Request] = []
        self.waiting: list[asyncio.Future[Any]] = []
        self.sessions: list[tuple[str, str]] = []
        self.rejections: list[str] = []
        self.wait = False
        self.admission = (0, 0)
        self.throttle_ms = 0
        self.versions = ApiVersionsResponse()
        self.mute: Callable[[int], None]
        self.hold: Callable[[bool], None]

    def admit(self, host: str) -> tuple[int, int]:
        return self.admission

    def connected(
        self,
        listener: str,
        host: str,
        port: int,
        mute: Callable[[int], None],
        hold: Callable[[bool], None],
    ) -> Any:
        self.mute, self.hold = mute, hold
        self.sessions.append((listener, host))
        return self.sessions[-1]

    def authenticator(self, session: Any, certificate: bytes | None) -> Any:
        return None

    def rejected(self, listener: str, reason: str) -> None:
        self.rejections.append(reason)

    def disconnected(self, session: Any) -> None:
        self.sessions.remove(session)

    def dispatch(self, session: Any, request: Request) -> Any:
        self.seen.append(request)
        if request.api_key == ApiKey.API_VERSIONS:
            return self.versions
        if request.api_key == ApiKey.HEARTBEAT and not self.wait:
            assert isinstance(request.body, HeartbeatRequest)
            if request.body.group_id == "fail":
                raise RuntimeError("a bug")
            if self.throttle_ms:
                self.mute(self.throttle_ms)
            return HeartbeatResponse(throttle_time=request.body.generation_id)
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.peer = reader, writer, Peer()

    def send(self, message: Any, key: int, version: int) -> None:
        for part in self.peer.request(message, key, version, "test"):
            assert isinstance(part, bytes | bytearray)
            self.writer.write(bytes(part))

    def heartbeat(self, number: int, group: str = "g") -> None:
        request = HeartbeatRequest(group_id=group, generation_id=number)
        self.send(request, ApiKey.HEARTBEAT, 4)

    async def receive(self) -> Any:
        while (response := self.peer.next_response()) is None:
            data = await asyncio.wait_for(self.reader.read(65536), 60)
            assert data, "the server closed the connection"
            self.peer.receive_data(data)
        return response.body

    async def closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(100), 60) == b""
        except ConnectionResetError:
            return True


Connect = Callable[[], Coroutine[Any, Any, Client]]
Test = Callable[[Toy, Server, Connect], Coroutine[Any, Any, None]]


def serve(test: Test, **limits: Any) -> None:
    async def main() -> None:
        toy = Toy()
        settings: dict[str, Any] = {
            "frame_bytes_max": FRAME_BYTES_MAX,
            "connections_max": 100,
            "connections_per_ip_max": 100,
            "idle_s_max": 60.0,
            "backlog": 50,
        }
        server = Server(toy, **{**settings, **limits})
        port = server.listen("PLAINTEXT", "127.0.0.1", 0)
        server.accept()
        clients: list[Client] = []

        async def connect() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        try:
            await test(toy, server, connect)
        finally:
            await server.stop(0.1)
            for client in clients:
                client.writer.close()

    run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        for number in range(500):
            client.heartbeat(number)
        answers = [(await client.receive()).throttle_time for _ in range(500)]
        assert answers == list(range(500))

    serve(test)


def test_a_waiting_request_delays_only_its_own_connection() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        first, second = await connect(), await connect()
        toy.wait = True
        first.heartbeat(1)
        first.heartbeat(2)
        await until(lambda: len(toy.waiting) == 1)
        toy.wait = False
        second.heartbeat(3)
        assert (await second.receive()).throttle_time == 3
        assert len(toy.seen) == 2  # the first client's second request was not processed yet
        toy.waiting[0].set_result(HeartbeatResponse(throttle_time=1))
        assert [(await first.receive()).throttle_time for _ in range(2)] == [1, 2]

    serve(test)


def test_produces_overlap_within_a_bound_and_are_answered_in_order() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        for _ in range(OVERLAPPING_PRODUCES_MAX + 5):
            client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        await until(lambda: len(toy.waiting) == OVERLAPPING_PRODUCES_MAX)
        await asyncio.sleep(0.02)
        assert len(toy.waiting) == OVERLAPPING_PRODUCES_MAX
        for number in reversed(range(OVERLAPPING_PRODUCES_MAX)):
            toy.waiting[number].set_result(ProduceResponse(throttle_time=number))
        for number in range(OVERLAPPING_PRODUCES_MAX):
            assert (await client.receive()).throttle_time == number
        await until(lambda: len(toy.waiting) == OVERLAPPING_PRODUCES_MAX + 5)

    serve(test)


def test_nothing_overtakes_a_produce_that_has_yet_to_append() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        answer = toy.dispatch

        def dispatch(session: Any, request: Request) -> Any:
            if not toy.seen:
                toy.hold(True)
            return answer(session, request)

        toy.dispatch = dispatch  # type: ignore[method-assign]
        for _ in range(3):
            client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        await until(lambda: len(toy.waiting) == 1)
        await asyncio.sleep(0.02)
        assert len(toy.waiting) == 1
        toy.hold(False)  # it has appended; what is left is to wait for replicas
        assert len(toy.waiting) == 3
        for number, promise in enumerate(toy.waiting):
            promise.set_result(ProduceResponse(throttle_time=number))
        assert [(await client.receive()).throttle_time for _ in range(3)] == [0, 1, 2]

    serve(test)


def test_a_client_that_disconnects_while_held_is_forgotten() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        await until(lambda: len(toy.waiting) == 1)
        toy.hold(True)
        client.writer.close()
        await asyncio.sleep(0.02)
        toy.hold(False)
        await until(lambda: not toy.sessions)

    serve(test)


def test_a_request_without_response_leaves_no_gap() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.send(ProduceRequest(acks=0), ApiKey.PRODUCE, 9)
        client.heartbeat(7)
        await until(lambda: len(toy.waiting) == 1)
        toy.waiting[0].set_result(None)
        assert (await client.receive()).throttle_time == 7

    serve(test)


def test_a_client_that_does_not_read_is_not_served_further() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")

        class Large(ApiVersionsResponse):
            def write(self, writer: Any, version: int) -> None:
                writer.buffer += bytes(500_000)

        def dispatch(session: Any, asked: Request) -> Any:
            toy.seen.append(asked)
            return Large()

        toy.dispatch = dispatch  # type: ignore[method-assign]
        for _ in range(200):
            client.send(request, ApiKey.API_VERSIONS, 3)
        await asyncio.sleep(0.3)
        served = len(toy.seen)
        assert served < 50
        (channel,) = server._channels
        assert channel.outbox.size <= OUTBOX_BYTES_MAX + 500_100
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = 0
        while received < 200 * 500_008:
            received += len(await asyncio.wait_for(client.reader.read(1 << 20), 60))
        assert len(toy.seen) == 200

    serve(test)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", FRAME_BYTES_MAX + 1),
        struct.pack(">i", 2) + b"ab",
        struct.pack(">ihhi", 8, 999, 0, 1),
        struct.pack(">ihhi", 8, ApiKey.HEARTBEAT, 99, 1),
        struct.pack(">ihhih", 10, ApiKey.HEARTBEAT, 0, 1, 5000),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_bad_input_closes_that_connection_with_a_log_line(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        bystander, client = await connect(), await connect()
        client.writer.write(data)
        assert await client.closed()
        bystander.heartbeat(1)
        assert (await bystander.receive()).throttle_time == 1
        assert server.connection_count == 1

    with caplog.at_level(logging.WARNING, "ottla.net"):
        serve(test)
    assert len(caplog.records) == 1
    assert "Closing connection of 127.0.0.1:" in caplog.text


def test_random_bytes_do_not_harm_other_connections() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        bystander = await connect()
        for size in (1, 3, 10, 100, 5000):
            client = await connect()
            client.writer.write(os.urandom(size))
            client.writer.close()
        bystander.heartbeat(1)
        assert (await bystander.receive()).throttle_time == 1
        await until(lambda: server.connection_count == 1)

    serve(test)


def test_a_failing_handler_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        bystander, client = await connect(), await connect()
        client.heartbeat(1, group="fail")
        assert await client.closed()
        bystander.heartbeat(2)
        assert (await bystander.receive()).throttle_time == 2

    serve(test)
    assert "a bug" in caplog.text


def test_a_failing_answer_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.wait = True
        client.heartbeat(1)
        await until(lambda: len(toy.waiting) == 1)
        toy.waiting[0].set_exception(RuntimeError("a late bug"))
        assert await client.closed()

    serve(test)
    assert "a late bug" in caplog.text


def test_an_answer_for_a_disconnected_client_is_dropped() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        await until(lambda: len(toy.waiting) == 1)
        client.writer.close()
        await until(lambda: server.connection_count == 0)
        toy.waiting[0].set_result(ProduceResponse())
        await asyncio.sleep(0)
        assert toy.sessions == []

    serve(test)


def test_connections_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        first, second = await connect(), await connect()
        first.heartbeat(1)
        second.heartbeat(2)
        await first.receive()
        await second.receive()
        assert await (await connect()).closed()
        second.writer.close()
        await until(lambda: server.connection_count == 1)
        third = await connect()
        third.heartbeat(3)
        assert (await third.receive()).throttle_time == 3

    serve(test, connections_per_ip_max=2)
    assert "max.connections.per.ip (2)" in caplog.text
    serve(test, connections_max=2)
    assert "max.connections (2)" in caplog.text


def test_an_idle_connection_is_closed_but_not_a_waiting_one() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        idle, waiting = await connect(), await connect()
        toy.wait = True
        waiting.heartbeat(1)
        await until(lambda: len(toy.waiting) == 1)
        server._idle_s_max = 0.1
        assert await idle.closed()
        assert server.connection_count == 1
        toy.waiting[0].set_result(HeartbeatResponse(throttle_time=1))
        assert (await waiting.receive()).throttle_time == 1

    serve(test, idle_s_max=1.0)


def test_stop_answers_the_produces_under_way() -> None:
    async def test(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        await until(lambda: len(toy.waiting) == 1)
        stopping = asyncio.ensure_future(server.stop(60))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        toy.waiting[0].set_result(ProduceResponse(throttle_time=5))
        assert (await client.receive()).throttle_time == 5
        await stopping
        assert await client.closed()

    serve(test)
