"""A simulated broker: all parts of a real one that concern replication.

Real: logs (on files in memory), partitions, followers, fetchers, fetch sessions and the handlers of
Fetch and ListOffsets, in-sync sets and their writes, the image and who follows it, the controller
and its decisions. Simulated: lines, the way to the store, the disk, time. Left out: clients' APIs,
coordinators, quotas.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from sim_line import SimLine
from sim_loop import SimulatedProcess
from sim_network import Links
from sim_store import SimStore

from ottla.broker import registration
from ottla.broker.client_session import ClientSession
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.handlers import fetch as fetch_handler
from ottla.broker.handlers import list_offsets as list_offsets_handler
from ottla.broker.registration import Registration
from ottla.broker.replication import Replication
from ottla.broker.request_context import RequestContext
from ottla.cluster import controller_election
from ottla.cluster.controller import Controller
from ottla.cluster.controller_election import ControllerElection
from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.store import MetaStoreError
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import READ_UNCOMMITTED, Partition
from ottla.replica.partitions import Partitions
from ottla.storage.log_config import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.memory_files import MemoryFiles
from ottla.wire.apis import ApiKey

# Shorter than in production.
controller_election.CHECK_INTERVAL_S = 0.05
registration.RETRY_S = 0.02
DATA = "/data"
FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 7


@dataclass(frozen=True)
class Times:
    """Scales real seconds to simulated milliseconds."""

    lag_max_ms: int = 150
    session_s: float = 0.2
    store_patience_s: float | None = None
    line_patience_s: float = 0.1
    fetch_wait_ms: int = 40
    tick_s: float = 0.03
    fetch_bytes: int = 1 << 20
    """In one answer to a follower: with few it takes many to catch up."""

    @cache  # noqa: B019 -- there are few, and they live as long as the process
    def config(self) -> ServerConfig:
        return ServerConfig(
            {
                "zookeeper.connect": "simulated:2181",
                "replica.fetch.wait.max.ms": str(self.fetch_wait_ms),
                "replica.fetch.backoff.ms": "40",
                "replica.fetch.max.bytes": str(self.fetch_bytes),
                "replica.lag.time.max.ms": str(self.lag_max_ms),
                "replica.socket.timeout.ms": str(round(self.line_patience_s * 1000)),
            }
        )


class Machine:
    """A machine outlives its broker processes: id and disk."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = str(number)
        self.files = MemoryFiles()
        self.life: BrokerLife | None = None
        self.lives = 0
        self.clock_ms = 0
        """How wrong its clock is."""


class BrokerLife(SimulatedProcess):
    def __init__(self, machine: Machine, world: Any, config: LogConfig, times: Times) -> None:
        machine.lives += 1
        super().__init__(machine.name)
        self.machine = machine
        self.number = self.node_id = machine.number
        self.count = machine.lives
        self.world = world
        self.links: Links = world.links
        self.times = times
        self.log_config = config
        self.clock = self
        self.config = times.config()
        self.fetch_sessions = FetchSessions(100, seed=machine.number * 1000 + machine.lives)
        self.meta_store = SimStore(world.store, world.links, machine.name, times.store_patience_s)
        self.metadata = MetadataCache(self.meta_store)
        self.failed = asyncio.Event()
        self.shutting_down = False
        self.session_is_gone = False
        """By the store; we may not know it yet."""

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def _config(self) -> ServerConfig:
        return self.config

    def now_ms(self) -> int:
        return self.links.loop.now_ms() + self.machine.clock_ms

    def begin(self) -> None:
        """Runs in the context of its life."""
        self.spawn(self._live())

    async def _live(self) -> None:
        self.store = LogStore.open(
            [DATA], self.log_config, self.now_ms(), files=self.machine.files,
            node_id=self.number, cluster_id="simulated",
        )  # fmt: skip
        self.replication = Replication(
            self.number,
            self.meta_store,
            self.metadata,
            config=self._config,
            clock=self,
            open_connection=self.open,
            partitions=lambda: self.partitions,
        )
        self.partitions = Partitions(
            self.number,
            self.store,
            lambda _: self.log_config,
            lag_max_ms=lambda: self.times.lag_max_ms,
            on_role=self.replication.on_role,
        )
        await self._insist(self.metadata.refresh)
        self.commits = MetadataWriter(self.meta_store, self.metadata)
        self.controller = Controller(
            self.meta_store,
            self.metadata,
            self.commits,
            broker_id=self.number,
            config=self._config,
            rng=Random(self.number),
        )
        self.election = ControllerElection(
            self.controller,
            self.metadata,
            broker_id=self.number,
            config=self._config,
            now_ms=self.now_ms,
        )
        self.registration = Registration(
            self.meta_store,
            self.commits,
            self.metadata,
            broker_id=self.number,
            config=self._config,
            listeners=(Listener("PLAINTEXT", "localhost", 9000 + self.number, "PLAINTEXT"),),
            dirs=self.store.dirs,
            now_ms=self.now_ms,
            on_lost=self.fence,
            on_regained=self.unfence,
            on_replaced=self.failed.set,
        )
        await self._join()
        self.partitions.start(self.image, self.now_ms())
        self.metadata.add_listener(self._apply)
        await self._insist(self.metadata.start)
        self._apply(self.image)
        await self.election.start()
        self.registration.watch()
        self.spawn(self._tick())

    async def _insist(self, work: Any) -> None:
        while True:
            try:
                return await work()
            except MetaStoreError:
                await asyncio.sleep(0.01)

    def _apply(self, image: MetadataImage) -> None:
        self.partitions.apply(image, self.now_ms())
        for partition in self.partitions:
            if partition.leads:
                self.world.led(self, partition)

    # Being a member

    async def _join(self) -> None:
        while True:
            try:
                await self.registration.register()
                self.session_is_gone = False
                return
            except MetaStoreError:  # truncates a partial write
                self.meta_store.session.expire()
            except KafkaError:  # the previous incarnation has not expired yet
                pass
            await asyncio.sleep(0.01)

    @property
    def registered(self) -> bool:
        """True in this incarnation: the previous registration may not have expired yet."""
        membership = getattr(getattr(self, "registration", None), "_membership", None)
        me = self.image.brokers.get(self.number)
        if membership is None or me is None or self.session_is_gone:
            return False
        return bool(me.epoch == membership.broker.epoch)

    @property
    def has_no_disk(self) -> bool:
        """Its log directory has failed, which ends a broker that has no other."""
        return hasattr(self, "store") and all(log_dir.offline for log_dir in self.store.dirs)

    def fence(self) -> None:
        self.partitions.fence(self.now_ms())

    def unfence(self) -> None:
        self.session_is_gone = False
        self.partitions.unfence(self.now_ms())
        self._apply(self.image)

    async def _tick(self) -> None:
        """Periodic work: lagging followers, checkpoints, flushes."""
        while True:
            await asyncio.sleep(self.links.chance.uniform(0.5, 1.0) * self.times.tick_s)
            now_ms = self.now_ms()
            self.replication.check_isr(now_ms)
            if self.links.chance.random() < 0.3:
                with contextlib.suppress(KafkaError):
                    self._save(now_ms)

    def _save(self, now_ms: int) -> None:
        for partition in self.partitions:
            if self.links.chance.random() < 0.5:
                partition.log.flush(now_ms)
        self.store.checkpoint({(p.topic, p.index): p.high_watermark for p in self.partitions})

    # Lines

    async def open(self, broker_id: int) -> Any:
        machine = self.world.machines[broker_id]
        return await SimLine.open(
            self.links, self, lambda: machine.life, machine.name, self.times.line_patience_s
        )

    def serve(self, request: Any, api_key: int) -> Any:
        session = ClientSession(listener="PLAINTEXT", client_host="sim", client_port=0)
        if api_key == ApiKey.FETCH:
            ctx = RequestContext(self, session, FETCH_VERSION, "sim", self.now_ms())
            return fetch_handler.handle(ctx, request)
        assert api_key == ApiKey.LIST_OFFSETS
        ctx = RequestContext(self, session, LIST_OFFSETS_VERSION, "sim", self.now_ms())
        return list_offsets_handler.handle(ctx, request)

    # Clients

    def produce(self, topic: str, index: int, data: bytes) -> Any:
        """acks=all. The error, the base offset, and the epoch in which we lead."""
        partition: Partition | None = None
        try:
            partition = self.partitions.leading(topic, index)
            partition.check_min_isr()
            appended = partition.append(memoryview(bytearray(data)), self.now_ms())
        except KafkaError as error:
            return error.code, -1, partition.leader_epoch if partition is not None else -1
        except AttributeError:  # it has just started
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1
        epoch = partition.leader_epoch
        future = self.links.loop.create_future()

        def tell(code: ErrorCode) -> None:
            if not future.done():
                future.set_result((code, appended.first_offset, epoch))

        partition.on_committed(appended.last_offset + 1, tell, needs_min_isr=True)
        return future

    def poll(self, topic: str, index: int, offset: int) -> Any:
        """(high watermark, bytes) as a consumer sees them, of leaders and followers."""
        try:
            partition = self.partitions.find(topic, index)
            read = partition.read(
                offset, size_max=4096, isolation=READ_UNCOMMITTED, whole_first_batch=True
            )
        except (KafkaError, AttributeError):
            return None
        data = read.records.read() if read.records is not None else b""
        return read.high_watermark, data

    def leader_of(self, topic: str, index: int) -> int:
        found = self.image.topics.get(topic)
        return found.partitions[index].leader if found is not None else -1
