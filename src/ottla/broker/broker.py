"""The broker: the only place where the parts meet.

    start   bind -> metadata -> logs (recovered where need be) -> register -> coordinators -> accept
    stop    no new requests -> answer what is under way -> coordinators -> logs closed cleanly

Everything runs on one event loop, whose thread owns all state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.authentication import SaslGate
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.auto_create import create
from ottla.broker.cleaning import Cleaning
from ottla.broker.connection_rates import ConnectionRates
from ottla.broker.context import Session, unheard, unheld
from ottla.broker.credentials import Credentials
from ottla.broker.departed import Departed
from ottla.broker.dispatch import SERVED, dispatch
from ottla.broker.features import disabled_apis
from ottla.broker.groups import Groups
from ottla.broker.housekeeping import Housekeeping, Job
from ottla.broker.log_settings import log_settings
from ottla.broker.lookout import Lookout
from ottla.broker.neighbours import Neighbours
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quotas import Quotas
from ottla.broker.registration import Registration
from ottla.broker.replication import Replication
from ottla.broker.schema_validation import SchemaValidation
from ottla.broker.security import Security
from ottla.broker.sessions import FetchSessions
from ottla.broker.shares import Shares
from ottla.broker.shutdown import ShutdownSteps
from ottla.broker.store_access import own_cluster_id, own_store
from ottla.broker.telemetry import Telemetry
from ottla.broker.transactions import Transactions
from ottla.broker.turns import Turns
from ottla.broker.verification import Verification
from ottla.clock import SteadyClock, SystemClock, WatchedClock
from ottla.cluster.campaign import Campaign
from ottla.cluster.commits import Commits
from ottla.cluster.controller import Controller
from ottla.cluster.decisions import NewTopic
from ottla.cluster.expulsion import expel
from ottla.cluster.handover import leave_sets
from ottla.cluster.image import Broker as BrokerImage
from ottla.cluster.image import Image
from ottla.cluster.image import Partition as PartitionImage
from ottla.cluster.metadata import Metadata
from ottla.cluster.settings import Settings
from ottla.cluster.store import MetaStore, SessionState
from ottla.config import Listener, ServerConfig, advertise
from ottla.coordinator.keys import OFFSETS_TOPIC
from ottla.coordinator.share.records import STATE_TOPIC
from ottla.coordinator.transactions.keys import TRANSACTIONS_TOPIC
from ottla.net.inbound import Application
from ottla.net.line_security import LineSecurity
from ottla.net.server import Server
from ottla.replica.partitions import Partitions
from ottla.storage.directory import LogDir
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.wire.connection import Request

if TYPE_CHECKING:  # imported where they are configured
    from ottla.broker.access import Access
    from ottla.broker.metrics.page import Metrics

STOP_GRACE_S: Final = 5.0
SWEEP_INTERVAL_MS: Final = 10_000

log = logging.getLogger("ottla.broker")


class Broker:
    """One broker. `await start()`, and it serves until `await stop()`."""

    served: Final = SERVED

    def __init__(
        self,
        config: ServerConfig,
        *,
        clock: SteadyClock | None = None,
        meta_store: MetaStore | None = None,
    ) -> None:
        """A `meta_store` is one that is shared; this broker's session on it ends with the broker.
        Without one `zookeeper.connect` says where the others are; without that the metadata is
        kept beside the logs, and the broker is alone.
        """
        self.config = config
        self.clock = WatchedClock(clock or SystemClock())
        self.node_id = config.node_id
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.listeners: tuple[Listener, ...] = ()  # as bound: with the ports that were taken
        self.failed: asyncio.Event = asyncio.Event()  # nothing is left that could be served
        self.quotas = Quotas(config, self.clock)
        self.access = self._guard(config)
        self.credentials = Credentials(config)
        self.connection_rates = ConnectionRates(config)
        self.schema_validation = SchemaValidation(config, self.clock)
        self.telemetry = Telemetry()
        self.turns = Turns()
        self.neighbours = Neighbours(self)
        self.departed = Departed()
        self.metrics_port: int | None = None  # as bound
        self._metrics: Metrics | None = None
        self.disabled_apis: frozenset[int] = frozenset()  # of features that are off
        self._stopping = False
        self._catching_up = False  # with the logs of large topics
        self._reachable_of: Mapping[int, BrokerImage] | None = None
        self._reachable: dict[str, frozenset[int]] = {}  # by listener
        self._shared_store = meta_store
        self._meta_store: MetaStore
        self.metadata: Metadata
        self.settings: Settings
        self.controller: Controller
        self.store: LogStore
        self.partitions: Partitions
        self.replication: Replication
        self.producer_ids: ProducerIds
        self.groups: Groups
        self.transactions: Transactions
        self.verification: Verification
        self.shares: Shares

    @property
    def image(self) -> Image:
        """The cluster as it is now."""
        return self.metadata.image

    @property
    def session_state(self) -> SessionState | None:
        """How ZooKeeper is reached; None where the metadata is our own."""
        found: SessionState | None = getattr(self._meta_store, "session_state", None)
        return found

    @property
    def port(self) -> int:
        return self.listeners[0].port

    @property
    def bootstrap_servers(self) -> str:
        first = self.advertised()[0]
        return f"{first.host}:{first.port}"

    def advertised(self) -> tuple[Listener, ...]:
        ports = {each.name: each.port for each in self.listeners}
        return advertise(self.config.advertised_listeners, ports)

    # Start and stop

    async def start(self) -> None:
        """Serve when this returns. StoreError, OSError or KafkaError say why it can't.
        What was opened is closed again if it fails, so that the next one can succeed.
        """
        now_ms = self.clock.now_ms()
        async with AsyncExitStack() as undo:
            await self._open(now_ms, undo)
            await self._serve_metrics()
            undo.pop_all()
        self._housekeep()
        self._cleaning = Cleaning(self)
        self._cleaning.start()
        self._server.accept()
        self.lookout.start()

    async def _open(self, now_ms: int, undo: AsyncExitStack) -> None:
        sync = self.config.ottla_metadata_sync_enable
        self._meta_store = self._shared_store or await own_store(self.config)
        undo.push_async_callback(self._meta_store.close)
        self.metadata = Metadata(self._meta_store)
        await self.metadata.start()
        undo.push_async_callback(self.metadata.stop)
        cluster = await own_cluster_id(self._meta_store, self.metadata, self.config)
        # Certificates, passwords and limits that were changed at run time are in the store.
        self._take_broker_configs()
        self._security = Security(self)
        self._server = self._bind()
        undo.callback(self._server.stop_accepting)
        self.store = self._open_logs(cluster, now_ms)
        undo.callback(self.store.close, now_ms, sync=sync)
        self.replication = Replication(self, self._meta_store)
        undo.push_async_callback(self.replication.stop)
        self.partitions = Partitions(
            self.node_id,
            self.store,
            self._log_settings,
            lag_max_ms=lambda: self.config.replica_lag_time_max_ms,
            on_role=self.replication.on_role,
            on_brokers=self.replication.on_brokers,
        )
        for directory in self.store.dirs:
            directory.on_offline = self._on_offline
        self._rule()
        self.producer_ids = ProducerIds(self.settings.allocate_producer_ids)
        self.groups = Groups(self)
        self.transactions = Transactions(self)
        self.verification = Verification(self)
        self.shares = Shares(self)
        await self._registration.register()
        undo.push_async_callback(self._campaign.stop)
        await self._campaign.start()
        self.partitions.start(self.image, now_ms)
        undo.callback(self.groups.stop)
        self.groups.start(now_ms)
        undo.callback(self.verification.stop)
        undo.callback(self.transactions.stop)
        self.transactions.start(now_ms)
        undo.callback(self.shares.stop)
        self.shares.start(now_ms)
        self._apply_settings(self.image)
        self.disabled_apis = disabled_apis(self.image)
        self.metadata.on_image(self._on_image)
        self._registration.watch()

    async def stop(self) -> None:
        """Once; whoever calls it again finds it stopped, or stopping."""
        if self._stopping:
            return
        self._stopping = True
        await self._registration.unwatch()
        steps = ShutdownSteps(lambda: self.session_state)
        if self.config.controlled_shutdown_enable:
            await steps.run("Controlled shutdown", self._registration.controlled_shutdown)
        await self._cease(STOP_GRACE_S)
        await steps.run("Leaving the ISRs", lambda: leave_sets(self._commits, self.node_id))
        await self._campaign.halt()
        await steps.run("Resigning as controller", self._campaign.stop)
        await steps.run("Unregistering the broker", self._registration.leave)
        await self.metadata.stop()
        while self.partitions.behind:
            self.partitions.catch_up(self.clock.now_ms())
        self.store.close(
            self.clock.now_ms(),
            high_watermarks=self._high_watermarks(),
            sync=self.config.ottla_metadata_sync_enable,
        )
        await self._meta_store.close()

    async def crash(self) -> None:
        """End as by kill -9, in a process that goes on: for tests. Nothing is flushed or said."""
        if self._stopping:
            return
        self._stopping = True
        await self._campaign.halt()
        await self._registration.unwatch()
        await self._cease(0)
        await self.metadata.stop()
        self.store.abandon()
        await self._meta_store.close()

    async def _cease(self, grace_s: float) -> None:
        """What runs on its own ends, here as in `crash`."""
        await self.lookout.stop()
        await self._server.stop(grace_s)
        if self._metrics is not None:
            await self._metrics.stop()
        await self._cleaning.stop()
        self.connection_rates.stop()
        await self._housekeeping.stop()
        # The last images, in which we are gone, must not bring the coordinators back to life: the
        # logs may be another broker's soon, and be so in this very process.
        self.metadata.off_image(self._on_image)
        self.shares.stop()
        self.verification.stop()
        self.schema_validation.stop()
        self.transactions.stop()
        self.groups.stop()
        await self.replication.stop()
        self.neighbours.close()
        self.turns.close()

    def _rule(self) -> None:
        """The parts that change the cluster's metadata."""
        store, metadata = self._meta_store, self.metadata
        self._commits = commits = Commits(store, metadata)
        self.settings = Settings(store, commits, broker_id=self.node_id)
        self.controller = Controller(
            store, metadata, commits, broker_id=self.node_id, config=lambda: self.config
        )
        self.lookout = Lookout(self, lambda broker: expel(store, commits, broker))
        self._registration = Registration(self, store, commits)
        self._campaign = Campaign(
            self.controller,
            metadata,
            broker_id=self.node_id,
            config=lambda: self.config,
            now_ms=self.clock.now_ms,
        )

    def _bind(self) -> Server:
        config = self.config
        server = Server(
            self._application(),
            frame_bytes_max=config.socket_request_max_bytes,
            connections_max=config.max_connections,
            connections_per_ip_max=config.max_connections_per_ip,
            connections_per_ip_overrides=config.max_connections_per_ip_overrides,
            idle_s_max=config.connections_max_idle_ms / 1000,
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        bound = []
        try:
            for each in config.listeners:
                tls = self._security.tls(each.name)
                port = server.listen(each.name, each.host, each.port, tls=tls)
                bound.append(Listener(each.name, each.host, port, each.security_protocol))
        except OSError as error:
            server.stop_accepting()
            raise OSError(error.errno, f"cannot listen on {each}: {error.strerror}") from error
        self.listeners = tuple(bound)
        return server

    def _guard(self, config: ServerConfig) -> Access | None:
        """The authorizer, where one is configured: without it nobody is refused anything."""
        if not config.authorizer_class_name:
            return None
        from ottla.broker.access import Access

        return Access(config)

    def _application(self) -> Application:
        """What the server serves: this broker, or one that counts in front of it."""
        if self.config.metrics_port is None:
            return self
        from ottla.broker.metrics.page import Metrics

        self._metrics = Metrics(self)
        return self._metrics.app

    async def _serve_metrics(self) -> None:
        if self._metrics is None or self.config.metrics_port is None:
            return
        host, port = self.config.metrics_host, self.config.metrics_port
        if host is None:
            host = self.config.listeners[0].host
        try:
            self.metrics_port = await self._metrics.start(host, port)
        except OSError as error:
            message = f"metrics.port: cannot listen on {host}:{port}: {error.strerror}"
            raise OSError(error.errno, message) from error
        log.info("metrics on http://%s:%d/metrics", host or "*", self.metrics_port)

    def _open_logs(self, cluster: str, now_ms: int) -> LogStore:
        topics = self.image.topics.values()
        return LogStore.open(
            self.config.log_dirs,
            self._log_settings({}),
            now_ms,
            configs={topic.name: self._log_settings(topic.configs) for topic in topics},
            node_id=self.node_id,
            cluster_id=cluster,
        )

    # What the server calls

    def admit(self, host: str) -> tuple[int, int]:
        return self.connection_rates.admit(host, self.clock.now_ms())

    def connected(
        self,
        listener: str,
        host: str,
        port: int,
        mute: Callable[[int], None] = unheard,
        hold: Callable[[bool], None] = unheld,
    ) -> Session:
        return Session(listener=listener, client_host=host, client_port=port, mute=mute, hold=hold)

    def gate(self, session: Session, certificate: bytes | None) -> SaslGate | None:
        return self._security.gate(session, certificate)

    def rejected(self, listener: str, reason: str) -> None:
        self._security.counts.failed(listener)

    def disconnected(self, session: Session) -> None:
        self.shares.disconnected(session, self.clock.now_ms())
        session.closed = True
        if session.wait is not None:
            session.wait.cancel()
        session.mute = unheard  # which held the connection, and that holds the session
        session.hold = unheld

    def dispatch(self, session: Session, request: Request) -> Any:
        """HOT."""
        return dispatch(self, session, request)

    # What handlers ask

    @property
    def authentication_counts(self) -> AuthenticationCounts:
        return self._security.counts

    def line_security(self) -> LineSecurity | None:
        """How to speak to other brokers."""
        return self._security.line_security()

    def check_security(self, config: ServerConfig) -> None:
        """ConfigError if our listeners can't take this configuration while they run."""
        self._security.check(config)

    def endpoints(self, listener: str) -> Iterator[tuple[BrokerImage, str, int]]:
        """Every live broker with the address for clients of this listener."""
        return _addresses(self.image.brokers.values(), listener)

    def endpoints_of_late(self, listener: str) -> Iterator[tuple[BrokerImage, str, int]]:
        """The same, and those that have gone within the last seconds."""
        yield from self.endpoints(listener)
        yield from _addresses(self.departed.shown(self.clock.now_ms()), listener)

    def reachable(self, listener: str) -> frozenset[int]:
        """The live brokers that have this listener; kept for as long as the brokers are these."""
        brokers = self.image.brokers
        if self._reachable_of is not brokers:
            self._reachable_of, self._reachable = brokers, {}
        found = self._reachable.get(listener)
        if found is None:
            found = frozenset(each.id for each in brokers.values() if each.listener(listener))
            self._reachable[listener] = found
        return found

    def offline_replicas(self, topic: str, partition: PartitionImage) -> list[int]:
        """Replicas on brokers that are dead, and ours if its log directory has failed."""
        offline = [each for each in partition.replicas if each not in self.image.brokers]
        if self.node_id not in offline and self.partitions.is_offline(topic, partition.index):
            offline.append(self.node_id)
        return offline

    async def auto_create(self, topic: str) -> None:
        """Create a topic that a client asked for and nobody made; KafkaError if it can't be.

        That somebody else has made it meanwhile is as good.
        """
        wish = NewTopic(topic)
        if topic == OFFSETS_TOPIC:
            wish = self.groups.offsets_topic()
        elif topic == TRANSACTIONS_TOPIC:
            wish = self.transactions.transactions_topic()
        elif topic == STATE_TOPIC:
            wish = self.shares.states.state_topic()
        await create(self, wish)

    # What the cluster's changes do to us

    def _on_image(self, image: Image) -> None:
        now_ms = self.clock.now_ms()
        if self._take_broker_configs():
            self.partitions.reconfigure()
            self._security.reconfigure(self.config)
            server, config = self._server, self.config
            server.connections_max = config.max_connections
            server.connections_per_ip_max = config.max_connections_per_ip
            server.connections_per_ip_overrides = config.max_connections_per_ip_overrides
        self.partitions.apply(image, now_ms)
        if self.partitions.behind and not self._catching_up:
            self._catching_up = True
            asyncio.get_running_loop().call_soon(self._catch_up)
        self.neighbours.apply(image)
        self.departed.apply(image, now_ms)
        self._apply_settings(image)
        self.disabled_apis = disabled_apis(image)
        self._coordinate(image, now_ms)

    def _catch_up(self) -> None:
        """Make or delete some of the logs of large topics in each turn of the loop."""
        self._catching_up = self.partitions.behind and not self._stopping
        if self._catching_up:
            self.partitions.catch_up(self.clock.now_ms())
            asyncio.get_running_loop().call_soon(self._catch_up)

    async def caught_up(self) -> None:
        """Wait until every log of this broker's partitions is there."""
        while self.partitions.behind and not self._stopping:
            await asyncio.sleep(0)

    def fence(self) -> None:
        """Others may have taken our place: from now on we lead nothing."""
        now_ms = self.clock.now_ms()
        self.partitions.fence(now_ms)
        self._coordinate(self.image, now_ms)

    def unfence(self) -> None:
        """We are one of the brokers again."""
        now_ms = self.clock.now_ms()
        self.partitions.unfence(now_ms)
        self._coordinate(self.image, now_ms)

    def _coordinate(self, image: Image, now_ms: int) -> None:
        self.groups.apply(image, now_ms)
        self.transactions.apply(image, now_ms)
        self.shares.apply(image, now_ms)

    def _apply_settings(self, image: Image) -> None:
        """Quotas, ACLs and credentials."""
        if self.access is not None:
            self.access.apply(image)
        self.credentials.apply(image)
        self.quotas.apply(image)
        self.connection_rates.apply(image, self.config)

    def _take_broker_configs(self) -> bool:
        """Make what was set at run time part of the configuration; True if that changed it."""
        default = dict(self.image.broker_config(""))
        broker = dict(self.image.broker_config(str(self.node_id)))
        if default == self.config.dynamic_default and broker == self.config.dynamic_broker:
            return False
        self.config = self.config.with_dynamic(default=default, broker=broker)
        return True

    def _log_settings(self, overrides: Mapping[str, str]) -> LogConfig:
        return self.schema_validation.noted(log_settings(self.config, overrides))

    def _on_offline(self, directory: LogDir) -> None:
        log.error("log directory %s failed; its partitions are offline", directory.path)
        self.partitions.wake(directory)
        self.replication.on_offline(directory)
        if all(each.offline for each in self.store.dirs):
            log.error("every log directory is offline: the broker can't go on")
            self.failed.set()

    # Chores

    def _housekeep(self) -> None:
        config = self.config
        chores = self._housekeeping = Housekeeping(self.clock.now_ms)
        chores.every(config.log_retention_check_interval_ms, "retention", self._retain)
        self._checkpointed_ms = self.clock.now_ms()
        interval_ms = min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.replica_high_watermark_checkpoint_interval_ms,
        )
        chores.every(interval_ms, "checkpoints", self._write)
        chores.every(
            config.producer_id_expiration_check_interval_ms, "producers", self._expire_producers
        )
        delay_ms = max(100, config.log_segment_delete_delay_ms)
        chores.every(min(SWEEP_INTERVAL_MS, delay_ms), "removal", self._remove)
        chores.every(_flush_interval_ms(config), "flush", self._flush)
        tokens_ms = config.delegation_token_expiry_check_interval_ms
        chores.every(tokens_ms, "tokens", lambda now_ms: self.credentials.expire(self, now_ms))
        lag_ms = config.replica_lag_time_max_ms
        chores.every(config.ottla_ssl_files_check_interval_ms, "certificates", self._refresh)
        chores.every(lag_ms // 2, "in-sync sets", self.replication.check_isr)

    def _retain(self, now_ms: int) -> None:
        if self.store.retain(now_ms, self._high_watermarks()):
            for each in self.partitions:
                each.tail.wake_all()  # followers delete what their leader has deleted

    def _write(self, now_ms: int) -> list[Job]:
        """High watermarks more often than the rest, where there are any but the log's end."""
        interval_ms = self.config.log_flush_offset_checkpoint_interval_ms
        often_ms = self.config.replica_high_watermark_checkpoint_interval_ms
        is_due = not often_ms < interval_ms or now_ms - self._checkpointed_ms >= interval_ms
        if not is_due and not any(len(each.replicas) > 1 for each in self.partitions):
            return []
        self._checkpointed_ms = now_ms
        job = self.store.checkpoint_job(self._high_watermarks())
        return [] if job is None else [Job(job.run, lambda _: job.done())]

    def _expire_producers(self, now_ms: int) -> None:
        self.store.expire_producers(now_ms, self.config.producer_id_expiration_ms)

    def _remove(self, now_ms: int) -> list[Job]:
        job = self.store.remove_job(now_ms)
        return [] if job is None else [Job(job.run)]

    def _flush(self, now_ms: int) -> list[Job]:
        return [Job(job.run, job.done) for job in self.store.flush_jobs(now_ms)]

    def _refresh(self, now_ms: int) -> None:
        self._security.refresh()

    def _high_watermarks(self) -> dict[tuple[str, int], int]:
        return {(each.topic, each.index): each.high_watermark for each in self.partitions}


def _addresses(
    brokers: Iterable[BrokerImage], listener: str
) -> Iterator[tuple[BrokerImage, str, int]]:
    for broker in brokers:
        found = broker.listener(listener)
        if found is not None:
            yield broker, found.host, found.port


def _flush_interval_ms(config: ServerConfig) -> int:
    """log.flush.scheduler.interval.ms: how often to look for logs whose flush.ms is over."""
    return min(config.log_flush_scheduler_interval_ms, 60_000)
