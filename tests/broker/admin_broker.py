"""A broker without sockets and groups, for tests of the administrative handlers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES
from ottla.broker.log_settings import log_settings
from ottla.broker.request_context import RequestContext
from ottla.cluster.cluster_membership import ClusterMembership, cluster_id
from ottla.cluster.controller import Controller
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.image import BrokerRegistration, MetadataImage, PartitionRegistration
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.config import Listener, ServerConfig
from ottla.replica.partitions import Partitions
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.fields import Writer

NOW_MS = 1_700_000_000_000
NODE_ID = 3


class AdminBroker:
    """Real metadata and logs; requests are encoded in the requested version."""

    def __init__(self, path: Path, properties: Mapping[str, str]) -> None:
        dirs = f"{path}/one,{path}/two"
        self.config = ServerConfig({"node.id": str(NODE_ID), "log.dirs": dirs, **properties})
        self.node_id = NODE_ID
        self.access = None  # no authorizer
        self.metadata: MetadataCache
        self.controller: Controller
        self.store: LogStore
        self.partitions: Partitions

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    async def caught_up(self) -> None:
        while self.partitions.behind:
            self.partitions.catch_up(NOW_MS)

    async def start(self) -> None:
        self._meta_store = EmbeddedStore(None)
        self.metadata = MetadataCache(self._meta_store)
        await self.metadata.start()
        cluster = await cluster_id(self._meta_store, self.metadata)
        self.store = LogStore.open(
            self.config.log_dirs, self._settings({}), NOW_MS, node_id=NODE_ID, cluster_id=cluster
        )
        self.partitions = Partitions(NODE_ID, self.store, self._settings)
        commits = MetadataWriter(self._meta_store, self.metadata)
        self.settings = RuntimeSettings(self._meta_store, commits, broker_id=NODE_ID)
        self.controller = Controller(
            self._meta_store, self.metadata, commits, broker_id=NODE_ID, config=lambda: self.config
        )
        await ClusterMembership.register(
            self._meta_store,
            self.metadata,
            broker_id=NODE_ID,
            listeners=(Listener("PLAINTEXT", "example.org", 9092, "PLAINTEXT"),),
            rack="r1",
            now_ms=NOW_MS,
        )
        await self.controller.elect(NOW_MS)
        self.metadata.add_listener(self._on_image)

    async def stop(self) -> None:
        await self.metadata.stop()
        self.store.close(NOW_MS, sync=False)
        await self._meta_store.close()

    def _on_image(self, image: MetadataImage) -> None:
        self.config = self.config.with_dynamic(
            default=image.broker_config(""), broker=image.broker_config(str(NODE_ID))
        )
        self.partitions.apply(image, NOW_MS)
        self.partitions.reconfigure()

    def _settings(self, overrides: Mapping[str, str]) -> LogConfig:
        return log_settings(self.config, overrides)

    def endpoints(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        for broker in self.image.brokers.values():
            found = broker.listener(listener)
            if found is not None:
                yield broker, found.host, found.port

    def check_security(self, config: ServerConfig) -> None:
        """Its listeners are all PLAINTEXT."""

    def reachable(self, listener: str) -> frozenset[int]:
        return frozenset(broker.id for broker, _, _ in self.endpoints(listener))

    def offline_replicas(self, topic: str, partition: PartitionRegistration) -> list[int]:
        return [NODE_ID] if self.partitions.is_offline(topic, partition.index) else []

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        """The response, as a client of this version (by default the newest) decodes it."""
        route, api = ROUTES[key], APIS[key]
        version = route.version_max if version is None else version
        assert route.version_min <= version <= route.version_max
        body = _through_bytes(request, api.request, version)
        session = ClientSession(listener="PLAINTEXT", client_host="h", client_port=1)
        context = RequestContext(self, session, version, "test", NOW_MS)  # type: ignore[arg-type]
        answer = route.handle(context, body)
        if inspect.isawaitable(answer):
            answer = await answer
        return _through_bytes(answer, api.response, version)


def _through_bytes(message: Any, kind: Any, version: int) -> Any:
    writer = Writer()
    message.write(writer, version)
    data = b"".join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]
    decoded, end = kind.read(data, 0, version)
    assert end == len(data)
    return decoded


class ScenarioRunner:
    """Runs one coroutine function against a fresh broker."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, scenario: Any, **properties: str) -> None:
        asyncio.run(self._run(scenario, {k.replace("_", "."): v for k, v in properties.items()}))

    async def _run(self, scenario: Any, properties: Mapping[str, str]) -> None:
        broker = AdminBroker(self._path, properties)
        await broker.start()
        try:
            running: Coroutine[Any, Any, None] = scenario(broker)
            await running
        finally:
            await broker.stop()
