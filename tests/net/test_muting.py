"""Clients over their quota: replies at once, no further requests for a while (KIP-219, KIP-612)."""

from __future__ import annotations

import asyncio
import time

import pytest
from test_server import Client, Connect, Toy, serve

from ottla.net.limits import THROTTLED_SOCKETS_MAX
from ottla.net.server import Server
from ottla.wire.apis import ApiKey
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

LONG_MS = 600_000  # longer than any of these tests may take


async def until(condition: object, timeout_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


def test_a_muted_client_is_answered_at_once_and_read_again_later() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.throttle_ms = LONG_MS
        client.heartbeat(1)
        client.heartbeat(2)  # in the same packet, perhaps
        assert (
            await client.receive()
        ).throttle_time == 1  # which does not wait for the end of the mute
        client.heartbeat(3)
        await asyncio.sleep(0.1)
        assert len(toy.seen) == 1
        client = await connect()
        toy.throttle_ms = 300
        started = time.monotonic()
        client.heartbeat(4)
        client.heartbeat(5)
        assert (await client.receive()).throttle_time == 4
        client.heartbeat(6)
        toy.throttle_ms = 0
        assert (await client.receive()).throttle_time == 5
        assert time.monotonic() - started >= 0.29
        assert (await client.receive()).throttle_time == 6

    serve(scenario)


def test_muting_again_extends_and_never_shortens_the_mute() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.throttle_ms = 50
        client.heartbeat(1)
        await client.receive()
        started = time.monotonic()
        toy.mute(300)
        toy.mute(1)
        toy.throttle_ms = 0
        client.heartbeat(2)
        assert (await client.receive()).throttle_time == 2
        assert time.monotonic() - started >= 0.29

    serve(scenario)


async def produce(toy: Toy, client: Client, count: int) -> None:
    for _ in range(count):
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
    await until(lambda: len(toy.waiting) == count)


def test_pipelined_produces_are_answered_while_their_client_is_muted() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        await produce(toy, client, 3)
        toy.waiting[1].set_result(ProduceResponse(throttle_time=1))
        toy.mute(LONG_MS)
        client.send(ProduceRequest(acks=-1), ApiKey.PRODUCE, 9)
        toy.waiting[0].set_result(ProduceResponse(throttle_time=0))
        toy.waiting[2].set_result(ProduceResponse(throttle_time=2))
        assert [(await client.receive()).throttle_time for _ in range(3)] == [0, 1, 2]
        await asyncio.sleep(0.05)
        assert len(toy.seen) == 3

    serve(scenario)


def test_an_answer_that_comes_late_leaves_the_client_muted() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.wait = True
        client.heartbeat(1)
        await until(lambda: toy.waiting)
        toy.mute(LONG_MS)
        toy.waiting[0].set_result(HeartbeatResponse())
        await client.receive()
        client.heartbeat(2)
        await asyncio.sleep(0.05)
        assert len(toy.seen) == 1

    serve(scenario)


def test_the_end_of_the_mute_does_not_overtake_an_awaited_answer() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.wait = True
        client.heartbeat(1)
        await until(lambda: toy.waiting)
        toy.mute(20)
        client.heartbeat(2)
        await asyncio.sleep(0.1)
        assert len(toy.seen) == 1
        toy.wait = False
        toy.waiting[0].set_result(HeartbeatResponse())
        await client.receive()
        assert (await client.receive()).throttle_time == 2

    serve(scenario)


def test_a_muted_client_that_leaves_is_forgotten() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.throttle_ms = LONG_MS
        client.heartbeat(1)
        await client.receive()
        client.writer.close()
        await until(lambda: server.connection_count == 0)
        toy.mute(LONG_MS)  # a late answer of a client that has gone
        assert toy.sessions == []

    serve(scenario)


def test_a_muted_client_that_leaves_requests_behind_is_removed() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.throttle_ms = LONG_MS
        client.heartbeat(1)
        await client.receive()
        client.heartbeat(2)
        await asyncio.sleep(0.05)
        client.writer.close()
        server._idle_s_max = 0.2
        await until(lambda: server.connection_count == 0)

    serve(scenario, idle_s_max=1.0)


def test_muted_clients_do_not_delay_the_shutdown() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        client = await connect()
        toy.throttle_ms = LONG_MS
        client.heartbeat(1)
        await client.receive()
        await asyncio.wait_for(server.stop(100.0), 50)
        assert await client.closed()

    serve(scenario)


def test_a_client_above_its_address_rate_waits_and_is_closed() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        toy.admission = (200, 0)
        started = time.monotonic()
        client = await connect()
        client.heartbeat(1)
        assert await client.closed()
        assert time.monotonic() - started >= 0.19
        assert (toy.sessions, toy.seen, server.connection_count) == ([], [], 0)
        toy.admission = (0, 0)
        client = await connect()
        client.heartbeat(2)
        assert (await client.receive()).throttle_time == 2

    serve(scenario)


def test_the_number_of_waiting_clients_is_limited() -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        toy.admission = (LONG_MS, 0)
        waiting = await connect()
        await asyncio.sleep(0.05)
        held = dict(server._throttled)
        try:
            filler = next(iter(held.values()))
            for number in range(THROTTLED_SOCKETS_MAX):
                server._throttled[number] = filler  # type: ignore[index]
            assert await (await connect()).closed()
        finally:
            server._throttled = held
        await server.stop(1.0)
        assert await waiting.closed()

    serve(scenario)


@pytest.mark.parametrize("pause_ms", [300, LONG_MS])
def test_too_many_new_connections_delay_all_others(pause_ms: int) -> None:
    async def scenario(toy: Toy, server: Server, connect: Connect) -> None:
        toy.admission = (0, pause_ms)
        started = time.monotonic()
        first = await connect()
        first.heartbeat(1)
        assert (await first.receive()).throttle_time == 1  # whatever the pause is
        second = await connect()
        second.heartbeat(2)
        if pause_ms == LONG_MS:
            await asyncio.sleep(0.1)
            assert len(toy.seen) == 1
        else:
            assert (await second.receive()).throttle_time == 2
            assert time.monotonic() - started >= pause_ms / 1000 - 0.01

    serve(scenario)
