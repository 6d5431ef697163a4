"""A broker behind its sockets: waiting fetches when clients disconnect or the broker stops."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from data_path_broker import Client, batch, broker_config, code, records_of, until, waiters

from ottla.broker.broker import Broker
from ottla.net.limits import OVERLAPPING_PRODUCES_MAX
from ottla.net.loop import run as run_loop
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.peer import Peer


class Caller:
    """A client at the other end of a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.peer = reader, writer, Peer()

    def send(self, key: ApiKey, request: Any, version: int) -> None:
        for part in self.peer.request(request, key, version, "caller"):
            self.writer.write(bytes(part))  # type: ignore[arg-type]

    async def receive(self) -> Any:
        while (response := self.peer.next_response()) is None:
            data = await asyncio.wait_for(self.reader.read(1 << 16), 60)
            assert data, "the broker closed the connection"
            self.peer.receive_data(data)
        return response.body

    async def is_closed(self) -> bool:
        try:
            return await asyncio.wait_for(self.reader.read(1), 60) == b""
        except ConnectionError:
            return True

    def hang_up(self, *, reset: bool) -> None:
        if reset:
            sock: socket.socket = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.close()


Connect = Callable[[], Awaitable[Caller]]
Act = Callable[[Client, Connect], Awaitable[None]]


def serve(path: Path, act: Act, **properties: str) -> None:
    """Run a broker on its real loop, with a topic `t` of three partitions."""

    async def main() -> None:
        broker = Broker(broker_config(path, **properties))
        callers: list[Caller] = []

        async def connect() -> Caller:
            callers.append(Caller(*await asyncio.open_connection("127.0.0.1", broker.port)))
            return callers[-1]

        await broker.start()
        try:
            client = Client(broker)
            await client.create("t", 3)
            await act(client, connect)
        finally:
            began = time.monotonic()
            with mock.patch("ottla.broker.broker.STOP_GRACE_S", 60):
                await broker.stop()
            took = time.monotonic() - began
            for caller in callers:
                caller.writer.close()
            await asyncio.sleep(0.01)
        assert took < 30  # no client is waited for

    run_loop(main())


def park(client: Client, caller: Caller, version: int = 18, max_wait: int = 600_000) -> None:
    request = client.fetch_request("t", {0: 0, 1: 0, 2: 0}, max_wait=max_wait)
    caller.send(ApiKey.FETCH, request, version)


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_disconnects_leaves_nothing_behind(tmp_path: Path, reset: bool) -> None:
    async def act(client: Client, connect: Connect) -> None:
        broker = client.broker
        callers = [await connect() for _ in range(20)]
        for caller in callers:
            park(client, caller, max_wait=2**31 - 1)
        await until(lambda: waiters(broker) == 60)
        for caller in callers:
            caller.hang_up(reset=reset)
        await until(lambda: waiters(broker) == 0)
        assert broker._server.connection_count == 0

    serve(tmp_path, act)


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_disconnects_with_pipelined_requests_leaves_nothing_behind(
    tmp_path: Path, reset: bool
) -> None:
    """The broker reads nothing from it, so only a check of its socket shows the disconnect."""

    async def act(client: Client, connect: Connect) -> None:
        broker = client.broker
        caller = await connect()
        park(client, caller)
        await until(lambda: waiters(broker) == 3)
        for _ in range(3):
            caller.send(ApiKey.LIST_GROUPS, ListGroupsRequest(), 4)
        (channel,) = broker._server._channels
        await until(lambda: channel.unheard)
        broker._server._sweep()
        assert broker._server.connection_count == 1
        caller.hang_up(reset=reset)
        await asyncio.sleep(0.02)
        broker._server._sweep()
        await until(lambda: waiters(broker) == 0)
        assert broker._server.connection_count == 0

    serve(tmp_path, act)


def test_a_member_that_disconnects_while_it_joins_frees_its_connection(tmp_path: Path) -> None:
    async def act(client: Client, connect: Connect) -> None:
        broker = client.broker
        caller = await connect()
        protocols = [JoinGroupRequestProtocol("range", b"")]
        await broker.auto_create("__consumer_offsets")
        request = JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols)
        caller.send(ApiKey.JOIN_GROUP, request, 3)
        await until(lambda: any(channel.waiting for channel in broker._server._channels))
        caller.hang_up(reset=False)
        await until(lambda: broker._server.connection_count == 0)

    serve(tmp_path, act, group_initial_rebalance_delay_ms="60000")


def test_a_long_fetch_is_answered_at_the_append(tmp_path: Path) -> None:
    async def act(client: Client, connect: Connect) -> None:
        caller = await connect()
        park(client, caller)
        await until(lambda: waiters(client.broker) == 3)
        await client.produce("t", batch(b"v"), index=2)
        response = await caller.receive()
        found = [len(records_of(partition)) for partition in response.responses[0].partitions]
        assert found == [0, 0, 1]

    serve(tmp_path, act)


def test_requests_behind_a_waiting_fetch_are_answered_after_it(tmp_path: Path) -> None:
    async def act(client: Client, connect: Connect) -> None:
        broker = client.broker
        caller = await connect()
        park(client, caller)
        await until(lambda: waiters(broker) == 3)
        for _ in range(100):
            caller.send(ApiKey.API_VERSIONS, ApiVersionsRequest("c", "1"), 3)
        park(client, caller, max_wait=50)
        other = await connect()
        other.send(ApiKey.API_VERSIONS, ApiVersionsRequest("c", "1"), 3)
        assert (await other.receive()).error_code == 0
        request = client.produce_request("t", batch(b"v"))
        other.send(ApiKey.PRODUCE, request, 13)
        assert code((await other.receive()).responses[0].partition_responses[0]) == "NONE"
        assert (await caller.receive()).responses
        for _ in range(100):
            assert (await caller.receive()).api_keys
        assert (await caller.receive()).responses

    serve(tmp_path, act)


def test_produces_on_one_connection_are_appended_in_order(tmp_path: Path) -> None:
    async def act(client: Client, connect: Connect) -> None:
        caller = await connect()
        count = 5 * OVERLAPPING_PRODUCES_MAX
        for number in range(count):
            request = client.produce_request("t", batch(b"%d" % number))
            caller.send(ApiKey.PRODUCE, request, 13)
        for number in range(count):
            (answer,) = (await caller.receive()).responses[0].partition_responses
            assert answer.base_offset == number
        found = records_of(await client.fetch("t", 0))
        assert [record.value for record in found] == [b"%d" % n for n in range(count)]

    serve(tmp_path, act)


def test_a_failed_append_with_acks_0_closes_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(client: Client, connect: Connect) -> None:
        caller = await connect()
        caller.send(ApiKey.PRODUCE, client.produce_request("t", batch(b"v"), acks=0), 13)
        caller.send(ApiKey.PRODUCE, client.produce_request("t", batch(b"v"), 9, acks=0), 13)
        assert await caller.is_closed()
        assert client.broker.partitions.find("t", 0).high_watermark == 1

    serve(tmp_path, act)
    assert "a produce with acks=0 failed" in caplog.text


def test_waiting_fetches_do_not_delay_the_shutdown(tmp_path: Path) -> None:
    """`serve` fails if stopping takes two seconds."""

    async def act(client: Client, connect: Connect) -> None:
        for _ in range(10):
            park(client, await connect())
        await until(lambda: waiters(client.broker) == 30)

    serve(tmp_path, act)


def test_a_shutdown_accepts_no_new_requests_and_answers_the_others(tmp_path: Path) -> None:
    """A client that never pauses does not delay it either."""

    async def act(client: Client, connect: Connect) -> None:
        caller = await connect()
        answered = 0

        async def go_on() -> None:
            nonlocal answered
            request = client.produce_request("t", batch(b"v"))
            with contextlib.suppress(AssertionError, ConnectionError):
                while True:
                    for _ in range(10):
                        caller.send(ApiKey.PRODUCE, request, 13)
                    for _ in range(10):
                        assert (
                            code((await caller.receive()).responses[0].partition_responses[0])
                            == "NONE"
                        )
                        answered += 1

        going = asyncio.ensure_future(go_on())
        await until(lambda: answered >= 50)
        partition = client.broker.partitions.find("t", 0)
        await client.broker._server.stop(5)
        await going
        # Every appended batch was acknowledged, so the client knows its state.
        assert answered == partition.high_watermark

    serve(tmp_path, act)


def test_a_waiting_fetch_is_answered_when_its_topic_is_deleted(tmp_path: Path) -> None:
    async def act(client: Client, connect: Connect) -> None:
        caller = await connect()
        park(client, caller, version=12)
        await until(lambda: waiters(client.broker) == 3)
        await client.broker.controller.delete_topics(["t"])
        response = await caller.receive()
        codes = {code(partition) for partition in response.responses[0].partitions}
        assert codes == {"UNKNOWN_TOPIC_OR_PARTITION"}

    serve(tmp_path, act)


def test_a_large_response_is_complete_although_its_topic_is_deleted(tmp_path: Path) -> None:
    """The response is being sent from a file that is already unlinked."""

    async def act(client: Client, connect: Connect) -> None:
        value = bytes(range(256)) * 3000
        for _ in range(30):
            assert code(await client.produce("t", batch(value))) == "NONE"
        caller = await connect()
        transport: Any = caller.writer.transport
        transport.pause_reading()
        size = {"partition_max_bytes": 1 << 30}
        request = client.fetch_request("t", {0: 0}, partition=size)
        caller.send(ApiKey.FETCH, request, 18)
        await until(lambda: any(channel.busy for channel in client.broker._server._channels))
        await client.broker.controller.delete_topics(["t"])
        transport.resume_reading()
        (answer,) = (await caller.receive()).responses[0].partitions
        assert [record.value for record in records_of(answer)] == [value] * 30

    serve(tmp_path, act)
