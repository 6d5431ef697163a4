"""Asking other brokers: one line for each kind of request, opened when needed, and anew."""

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
from ottla.net.line import Unreachable
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
    answer = await broker.neighbours.call(
        broker_id,
        DescribeClusterRequest(),
        ApiKey.DESCRIBE_CLUSTER,
        DescribeClusterResponse,
        timeout_s=60,
    )
    return answer.cluster_id


def test_calls_share_a_line_that_is_opened_once(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        me = broker.node_id
        answers = await asyncio.gather(*(ask(broker, me) for _ in range(20)))
        assert set(answers) == {broker.image.cluster_id}
        assert len(broker.neighbours._lines) == 1

    with_broker(tmp_path, test)


def test_a_broken_line_is_replaced(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        me = broker.node_id
        await ask(broker, me)
        for line in broker.neighbours._lines.values():
            line.close()
        assert await ask(broker, me) == broker.image.cluster_id

    with_broker(tmp_path, test)


def test_a_broker_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        with pytest.raises(Unreachable, match="broker 99 is not registered"):
            await ask(broker, 99)

    with_broker(tmp_path, test)


def test_who_asks_while_the_broker_stops_is_told(tmp_path: Path) -> None:
    async def test(broker: Broker) -> None:
        asking = asyncio.ensure_future(ask(broker, broker.node_id))
        await asyncio.sleep(0)
        broker.neighbours.close()
        with pytest.raises(KafkaError) as told:
            await asking
        assert told.value.code is ErrorCode.NETWORK_EXCEPTION

    with_broker(tmp_path, test)


def test_who_waits_for_a_broker_that_is_gone_is_told(tmp_path: Path) -> None:
    """It may stand still, with its connections open: nobody else would ever say so."""

    async def test(broker: Broker) -> None:
        me = broker.image.brokers[broker.node_id]
        await ask(broker, me.id)
        line = broker.neighbours._lines[me.id, ApiKey.DESCRIBE_CLUSTER]
        waiting = asyncio.create_task(ask(broker, me.id))
        await asyncio.sleep(0)
        broker.neighbours.apply(broker.image)  # nothing has changed
        assert not line.closed.is_set()
        brokers = {each: found for each, found in broker.image.brokers.items() if each != me.id}
        broker.neighbours.apply(replace(broker.image, brokers=brokers))
        assert line.closed.is_set()
        with pytest.raises(KafkaError) as error:
            await waiting
        assert error.value.code is ErrorCode.NETWORK_EXCEPTION

    with_broker(tmp_path, test)
