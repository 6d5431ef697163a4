"""Lines to other brokers: pipelining, large answers, and every way for them to end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from test_server import Connect, Toy, serve, until

from ottla.errors import ErrorCode, KafkaError
from ottla.net.line import Line, Unreachable
from ottla.net.server import Server
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

Test = Callable[[Toy, Server, Line], Coroutine[Any, Any, None]]


async def open_line(port: int, timeout_s: float = 60.0) -> Line:
    return await Line.open("127.0.0.1", port, client_id="test", timeout_s=timeout_s)


def with_line(test: Test) -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        port = client.writer.get_extra_info("peername")[1]
        line = await open_line(port)
        try:
            await test(toy, server, line)
        finally:
            line.close()

    serve(scenario)


def heartbeat(number: int, group: str = "g") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=number)


async def beat(line: Line, number: int, **more: Any) -> int:
    request = heartbeat(number)
    answer = await line.call(
        request, ApiKey.HEARTBEAT, HeartbeatResponse, **{"version": 4, "timeout_s": 10, **more}
    )
    return answer.throttle_time


def test_a_call_is_answered() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        assert await beat(line, 7) == 7

    with_line(test)


def test_calls_may_overlap_and_are_answered_in_order() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        assert await asyncio.gather(*(beat(line, n) for n in range(100))) == list(range(100))

    with_line(test)


def test_a_version_is_agreed_upon_when_the_line_is_opened() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        offered = [ApiVersion(api_key=int(ApiKey.HEARTBEAT), min_version=0, max_version=3)]
        toy.versions = ApiVersionsResponse(api_keys=offered)
        client = await connect()
        line = await open_line(client.writer.get_extra_info("peername")[1])
        assert await beat(line, 1, version=None) == 1
        assert toy.seen[-1].version == 3
        with pytest.raises(KafkaError) as told:
            await line.call(MetadataRequest(), ApiKey.METADATA, MetadataResponse)
        assert told.value.code is ErrorCode.UNSUPPORTED_VERSION
        line.close()

    serve(scenario)


def test_a_large_answer_comes_whole_whatever_its_pieces() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        toy.versions = ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=n % 100) for n in range(200_000)]
        )
        for _ in range(2):
            sent = [
                line.send(heartbeat(1), ApiKey.HEARTBEAT, version=4),
                line.send(
                    ApiVersionsRequest(client_software_name="t"), ApiKey.API_VERSIONS, version=3
                ),
                line.send(heartbeat(2), ApiKey.HEARTBEAT, version=4),
            ]
            first, large, last = await asyncio.gather(*sent)
            assert isinstance(large, ApiVersionsResponse)
            assert len(large.api_keys) == 200_000
            assert [first.throttle_time, last.throttle_time] == [1, 2]  # type: ignore[attr-defined]

    with_line(test)


def test_a_late_answer_ends_the_line() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        toy.wait = True
        with pytest.raises(KafkaError, match="no answer to Heartbeat within") as told:
            await beat(line, 1, timeout_s=0.05)
        assert told.value.code is ErrorCode.NETWORK_EXCEPTION
        assert line.closed.is_set()
        with pytest.raises(KafkaError):
            await beat(line, 2)

    with_line(test)


def test_who_gives_up_leaves_the_answers_of_the_others_alone() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        first = asyncio.ensure_future(
            line.call(ProduceRequest(acks=-1), ApiKey.PRODUCE, ProduceResponse, version=9)
        )
        await until(lambda: len(toy.waiting) == 1)
        first.cancel()
        second = asyncio.ensure_future(beat(line, 5))
        await asyncio.sleep(0)
        toy.waiting[0].set_result(ProduceResponse())
        assert await second == 5

    with_line(test)


def test_a_server_that_stops_ends_the_line_and_its_calls() -> None:
    async def test(toy: Toy, server: Server, line: Line) -> None:
        toy.wait = True
        call = asyncio.ensure_future(beat(line, 1))
        await until(lambda: len(toy.waiting) == 1)
        await server.stop(0.01)
        with pytest.raises(KafkaError) as told:
            await call
        assert told.value.code is ErrorCode.NETWORK_EXCEPTION
        await asyncio.wait_for(line.closed.wait(), 60)

    with_line(test)


def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(Unreachable) as told:
            asyncio.run(open_line(taken.getsockname()[1]))
    assert told.value.refused
    assert told.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_a_listener_that_never_answers_is_no_refusal() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(Unreachable) as told:
            asyncio.run(open_line(deaf.getsockname()[1], timeout_s=0.05))
    assert not told.value.refused


def test_a_far_side_that_speaks_no_kafka_ends_the_line() -> None:
    async def scenario() -> None:
        async def gibber(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(gibber, "127.0.0.1", 0)
        with pytest.raises(KafkaError) as told:
            await open_line(server.sockets[0].getsockname()[1])
        assert told.value.code is ErrorCode.NETWORK_EXCEPTION
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())
