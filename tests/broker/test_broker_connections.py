"""Connections to other brokers: one for each kind of request, opened and reopened on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.net.inter_broker_connection import BrokerUnreachable
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

Test = Callable[[Broker], Coroutine[Any, Any, None]]


def with_broker(path: Path, test: Test) -> None:
    async def main() -> None:
        broker = Broker(
            ServerConfig({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"})
        )
        await broker.start()
        try:
            await test(broker)
        finally:
            await broker.stop()

    asyncio.run(main())


async def ask(broker: Broker, broker_id: int = 1) -> str:
    answer = await broker.connections.call(
        broker_id,
        DescribeClusterRequest(),
        ApiKey.DESCRIBE_CLUSTER,
        DescribeClusterResponse,
        timeout_s=60,
    )
    return answer.cluster_id


def test_calls_share_one_connection(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        me = broker.node_id
        answers = await asyncio.gather(*(ask(broker, me) for _ in range(20)))
        assert set(answers) == {broker.image.cluster_id}
        assert len(broker.connections._lines) == 1

    with_broker(tmp_path, test)


def test_a_broken_connection_is_replaced(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        me = broker.node_id
        await ask(broker, me)
        for line in broker.connections._lines.values():
            line.close()
        assert await ask(broker, me) == broker.image.cluster_id

    with_broker(tmp_path, test)


def test_an_absent_broker_is_unreachable(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        with pytest.raises(BrokerUnreachable, match="broker 99 is not registered"):
            await ask(broker, 99)

    with_broker(tmp_path, test)


def test_a_call_fails_while_the_broker_stops(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        asking = asyncio.ensure_future(ask(broker, broker.node_id))
        await asyncio.sleep(0)
        broker.connections.close()
        with pytest.raises(KafkaError) as raised:
            await asking
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION

    with_broker(tmp_path, test)


def test_a_waiting_call_fails_when_its_broker_is_gone(tmp_path: Path) -> None:
    """A broker may hang with its connections open, and no other event would reveal it."""

    async def test(broker: Broker) -> None:
        me = broker.image.brokers[broker.node_id]
        await ask(broker, me.id)
        line = broker.connections._lines[me.id, ApiKey.DESCRIBE_CLUSTER]
        waiting = asyncio.create_task(ask(broker, me.id))
        await asyncio.sleep(0)
        broker.connections.apply(broker.image)  # nothing has changed
        assert not line.closed.is_set()
        brokers = {
            broker_id: found
            for broker_id, found in broker.image.brokers.items()
            if broker_id != me.id
        }
        broker.connections.apply(replace(broker.image, brokers=brokers))
        assert line.closed.is_set()
        with pytest.raises(KafkaError) as error:
            await waiting
        assert error.value.code is ErrorCode.NETWORK_EXCEPTION

    with_broker(tmp_path, test)
