"""Several real brokers on one loop, with sockets and one shared store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.broker import Broker
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import PartitionRegistration
from ottla.config import ServerConfig
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.wire.fields import Message

PATIENCE_S = 60.0

R = TypeVar("R", bound=Message)


class Brokers:
    """Brokers 1 to `count`; the first one is the controller."""

    def __init__(self, path: Path, count: int, properties: dict[str, str]) -> None:
        self._path = path
        self._properties = properties
        self._store = EmbeddedStore(None)
        self._ports: dict[int, int] = {}
        self.ids = range(1, count + 1)
        self.running: dict[int, Broker] = {}

    def __getitem__(self, broker_id: int) -> Broker:
        return self.running[broker_id]

    async def start(self, broker_id: int) -> Broker:
        port = self._ports.get(broker_id, 0)
        config = ServerConfig(
            {
                "log.dirs": str(self._path / str(broker_id)),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "node.id": str(broker_id),
                "ottla.metadata.sync.enable": "false",
                "log.cleaner.enable": "false",
                **self._properties,
            }
        )
        broker = Broker(config, meta_store=self._store.session())
        await broker.start()
        self._ports[broker_id] = broker.port
        self.running[broker_id] = broker
        return broker

    async def start_all(self) -> None:
        for broker_id in self.ids:
            await self.start(broker_id)
        await self.until(
            lambda: all(
                len(broker.image.brokers) == len(self.ids) for broker in self.running.values()
            )
        )

    async def stop(self, broker_id: int) -> None:
        await self.running.pop(broker_id).stop()

    async def crash(self, broker_id: int) -> None:
        await self.running.pop(broker_id).crash()

    async def stop_all(self) -> None:
        for broker_id in list(self.running):
            await self.stop(broker_id)
        await self._store.close()

    async def ask(
        self,
        broker_id: int,
        request: Message,
        api_key: int,
        response_type: type[R],
        version: int | None = None,
    ) -> R:
        line = await InterBrokerConnection.open(
            "127.0.0.1", self[broker_id].port, client_id="test", timeout_s=PATIENCE_S
        )
        try:
            return await line.call(
                request, api_key, response_type, version=version, timeout_s=PATIENCE_S
            )
        finally:
            line.close()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.005)

    def partition(self, broker_id: int, topic: str = "t", index: int = 0) -> PartitionRegistration:
        """The leader, according to this broker."""
        return self[broker_id].image.topics[topic].partitions[index]


def with_brokers(
    path: Path,
    scenario: Callable[[Brokers], Coroutine[Any, Any, None]],
    *,
    count: int = 3,
    **properties: str,
) -> None:
    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        brokers = Brokers(path, count, named)
        await brokers.start_all()
        try:
            await scenario(brokers)
        finally:
            await brokers.stop_all()

    asyncio.run(main())
