"""Several brokers on the loop of the test, which share one store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from data_path_broker import Client, batch

from ottla.broker.broker import Broker
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import PartitionRegistration
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.replica.partition import Partition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PATIENCE_S = 60.0

Act = Callable[["Brokers"], Coroutine[Any, Any, None]]


class Brokers:
    """Brokers by id."""

    def __init__(self, path: Path, **properties: str) -> None:
        self._path = path
        self._store = EmbeddedStore(None)
        self._properties = properties
        self._running: dict[int, Broker] = {}

    def __getitem__(self, broker_id: int) -> Broker:
        return self._running[broker_id]

    async def start(self, broker_id: int, **properties: str) -> Broker:
        given = {
            "node.id": str(broker_id),
            "log.dirs": str(self._path / str(broker_id)),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "ottla.metadata.sync.enable": "false",
            **self._properties,
            **properties,
        }
        names = {name.replace("_", "."): value for name, value in given.items()}
        broker = Broker(ServerConfig(names), meta_store=self._store.session())
        await broker.start()
        self._running[broker_id] = broker
        return broker

    async def stop(self, broker_id: int) -> None:
        await self._running.pop(broker_id).stop()

    async def crash(self, broker_id: int) -> None:
        await self._running.pop(broker_id).crash()

    async def stop_all(self) -> None:
        for broker_id in list(self._running):
            await self.stop(broker_id)
        await self._store.close()

    async def create(
        self, topic: str, *assignment: tuple[int, ...], configs: Mapping[str, str] | None = None
    ) -> None:
        spec = TopicSpec(topic, assignment=dict(enumerate(assignment)), configs=configs or {})
        running = self._running
        await self.until(
            lambda: all(
                broker.image.brokers.keys() >= running.keys() for broker in running.values()
            )
        )
        controller = running[next(iter(running.values())).image.controller_id].controller
        result = (await controller.create_topics([spec]))[topic]
        assert not isinstance(result, Exception), result
        await self.until(
            lambda: all(topic in broker.image.topics for broker in self._running.values())
        )

    def held(self, broker_id: int, topic: str = "t", index: int = 0) -> Partition:
        return self[broker_id].partitions.find(topic, index)

    def state(self, broker_id: int, topic: str = "t", index: int = 0) -> PartitionRegistration:
        return self[broker_id].image.topics[topic].partitions[index]

    def end(self, broker_id: int, topic: str = "t", index: int = 0) -> int:
        return self.held(broker_id, topic, index).log.end_offset

    async def produce(
        self, broker_id: int, *values: bytes, topic: str = "t", acks: int = -1
    ) -> int:
        """The error code."""
        data = PartitionProduceData(index=0, records=batch(*values))
        request = ProduceRequest(
            acks=acks,
            timeout=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await Client(self[broker_id]).ask(ApiKey.PRODUCE, request, 9)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)


def play(path: Path, act: Act, *, brokers: int = 3, **properties: str) -> None:
    async def main() -> None:
        cluster = Brokers(path, **properties)
        try:
            for broker_id in range(brokers):
                await cluster.start(broker_id)
            await act(cluster)
        finally:
            await cluster.stop_all()

    asyncio.run(main())
