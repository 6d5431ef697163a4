"""Connections to other brokers: pipelining, large responses, and every way in which they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from test_server import Connect, Toy, serve, until

from ottla.errors import ErrorCode, KafkaError
from ottla.net.inter_broker_connection import BrokerUnreachable, InterBrokerConnection
from ottla.net.server import Server
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

Test = Callable[[Toy, Server, InterBrokerConnection], Coroutine[Any, Any, None]]


async def open_line(port: int, timeout_s: float = 60.0) -> InterBrokerConnection:
    return await InterBrokerConnection.open(
        "127.0.0.1", port, client_id="test", timeout_s=timeout_s
    )


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


async def beat(line: InterBrokerConnection, number: int, **more: Any) -> int:
    request = heartbeat(number)
    answer = await line.call(
        request, ApiKey.HEARTBEAT, HeartbeatResponse, **{"version": 4, "timeout_s": 10, **more}
    )
    return answer.throttle_time


def test_a_call_is_answered() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
        assert await beat(line, 7) == 7

    with_line(test)


def test_calls_may_overlap_and_are_answered_in_order() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
        assert await asyncio.gather(*(beat(line, n) for n in range(100))) == list(range(100))

    with_line(test)


def test_versions_are_negotiated_when_the_connection_is_opened() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        offered = [ApiVersion(api_key=int(ApiKey.HEARTBEAT), min_version=0, max_version=3)]
        toy.versions = ApiVersionsResponse(api_keys=offered)
        client = await connect()
        line = await open_line(client.writer.get_extra_info("peername")[1])
        assert await beat(line, 1, version=None) == 1
        assert toy.seen[-1].version == 3
        with pytest.raises(KafkaError) as raised:
            await line.call(MetadataRequest(), ApiKey.METADATA, MetadataResponse)
        assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
        line.close()

    serve(scenario)


def test_a_large_answer_is_reassembled_from_any_pieces() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
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


def test_a_late_answer_closes_the_connection() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
        toy.wait = True
        with pytest.raises(KafkaError, match="no answer to Heartbeat within") as raised:
            await beat(line, 1, timeout_s=0.05)
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert line.closed.is_set()
        with pytest.raises(KafkaError):
            await beat(line, 2)

    with_line(test)


def test_a_cancelled_call_does_not_disturb_other_answers() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
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


def test_a_stopping_server_ends_the_connection_and_its_calls() -> None:
    async def test(toy: Toy, server: Server, line: InterBrokerConnection) -> None:
        toy.wait = True
        call = asyncio.ensure_future(beat(line, 1))
        await until(lambda: len(toy.waiting) == 1)
        await server.stop(0.01)
        with pytest.raises(KafkaError) as raised:
            await call
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        await asyncio.wait_for(line.closed.wait(), 60)

    with_line(test)


def test_a_port_without_a_listener_refuses() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(BrokerUnreachable) as raised:
            asyncio.run(open_line(taken.getsockname()[1]))
    assert raised.value.refused
    assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_a_silent_listener_is_not_a_refusal() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(BrokerUnreachable) as raised:
            asyncio.run(open_line(deaf.getsockname()[1], timeout_s=0.05))
    assert not raised.value.refused


def test_a_server_that_does_not_speak_kafka_closes_the_connection() -> None:
    async def scenario() -> None:
        async def gibber(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(gibber, "127.0.0.1", 0)
        with pytest.raises(KafkaError) as raised:
            await open_line(server.sockets[0].getsockname()[1])
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())
