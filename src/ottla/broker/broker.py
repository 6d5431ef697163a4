"""The broker: the only module that knows all parts, and puts them together.

    start   metadata -> bind -> logs, with recovery -> register -> coordinators -> accept
    stop    no new requests -> answer pending requests -> coordinators -> close the logs cleanly

Everything runs on one event loop, whose thread owns all state. A part gets what it needs in its
constructor, and never the broker; handlers reach the parts through `parts.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.authentication import SaslAuthentication
from ottla.broker.authentication_counts import AuthenticationCounts
from ottla.broker.auto_create import auto_create_topic
from ottla.broker.broker_connections import BrokerConnections
from ottla.broker.chores import Chores
from ottla.broker.client_endpoints import ClientEndpoints
from ottla.broker.client_session import ClientSession, no_hold, no_mute
from ottla.broker.connection_rates import ConnectionRates
from ottla.broker.credentials import Credentials
from ottla.broker.dispatch import SERVED, dispatch
from ottla.broker.failure_detector import FailureDetector
from ottla.broker.features import disabled_apis
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.group_coordinator_service import GroupCoordinatorService
from ottla.broker.large_requests import LargeRequests
from ottla.broker.log_cleaner import LogCleaner
from ottla.broker.log_settings import log_settings
from ottla.broker.metadata_store import find_cluster_id, open_metadata_store
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quotas import ClientQuotas
from ottla.broker.recently_dead_brokers import RecentlyDeadBrokers
from ottla.broker.registration import Registration
from ottla.broker.replication import Replication
from ottla.broker.schema_validation import SchemaValidation
from ottla.broker.security import Security
from ottla.broker.share.partitions import SharePartitions
from ottla.broker.shutdown import ShutdownSteps
from ottla.broker.telemetry import Telemetry
from ottla.broker.transaction_coordinator_service import TransactionCoordinatorService
from ottla.broker.transaction_markers import MarkerWriter, TransactionEnd, TransactionMarkerChannel
from ottla.broker.verification import Verification
from ottla.clock import SteadyClock, SystemClock, WatchedClock
from ottla.cluster.controlled_shutdown import leave_isrs_at_shutdown
from ottla.cluster.controller import Controller
from ottla.cluster.controller_election import ControllerElection
from ottla.cluster.dead_brokers import unregister_dead_broker
from ottla.cluster.image import BrokerRegistration, MetadataImage, PartitionRegistration
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.metadata_writer import MetadataWriter
from ottla.cluster.runtime_settings import RuntimeSettings
from ottla.cluster.store import MetaStore, SessionState
from ottla.cluster.topics import TopicSpec
from ottla.config import Listener, ServerConfig, advertise
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.share.state_records import STATE_TOPIC
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.net.channel import RequestHandler
from ottla.net.server import Server
from ottla.replica.partitions import Partitions
from ottla.storage.log import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.store import LogStore
from ottla.wire.connection import Request

if TYPE_CHECKING:  # imported where they are configured
    from ottla.broker.access import Access
    from ottla.broker.metrics.page import MetricsPage

STOP_GRACE_S: Final = 5.0

log = logging.getLogger("ottla.broker")


class Broker:
    """One broker, which serves from `await start()` to `await stop()`."""

    served: Final = SERVED

    def __init__(
        self,
        config: ServerConfig,
        *,
        clock: SteadyClock | None = None,
        meta_store: MetaStore | None = None,
    ) -> None:
        """`meta_store` is a store that several brokers share; this broker's session on it ends with
        the broker. Without one, the broker opens the ensemble that `zookeeper.connect` names.
        Without that, it keeps the metadata beside its logs and is the only broker.
        """
        self.config = config
        self.clock = WatchedClock(clock or SystemClock())
        self.node_id = config.node_id
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots)
        self.listeners: tuple[Listener, ...] = ()  # as bound: with the ports that were taken
        self.failed: asyncio.Event = asyncio.Event()  # set when the broker cannot serve any more
        self.quotas = ClientQuotas(config, self.clock)
        self.access = self._create_access(config)
        self.credentials = Credentials(config)
        self.connection_rates = ConnectionRates(config)
        self.schema_validation = SchemaValidation(config, self.clock)
        self.telemetry = Telemetry()
        self.large_requests = LargeRequests()
        self.recently_dead = RecentlyDeadBrokers()
        self.metrics_port: int | None = None  # as bound
        self._metrics: MetricsPage | None = None
        self.disabled_apis: frozenset[int] = frozenset()  # of features that are off
        self._stopping = False
        self._catching_up = False  # creating or deleting the logs of large topics
        self._shared_store = meta_store
        self._meta_store: MetaStore
        self.metadata: MetadataCache
        self.settings: RuntimeSettings
        self.controller: Controller
        self.failure_detector: FailureDetector
        self.connections: BrokerConnections
        self.store: LogStore
        self.partitions: Partitions
        self.replication: Replication
        self.producer_ids: ProducerIds
        self.groups: GroupCoordinatorService
        self.markers: MarkerWriter
        self.transactions: TransactionCoordinatorService
        self.verification: Verification
        self.shares: SharePartitions

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def session_state(self) -> SessionState | None:
        state: SessionState | None = getattr(self._meta_store, "session_state", None)
        return state

    @property
    def port(self) -> int:
        return self.listeners[0].port

    @property
    def bootstrap_servers(self) -> str:
        first = self.advertised()[0]
        return f"{first.host}:{first.port}"

    def advertised(self) -> tuple[Listener, ...]:
        ports = {listener.name: listener.port for listener in self.listeners}
        return advertise(self.config.advertised_listeners, ports)

    # Start and stop

    async def start(self) -> None:
        """Start, and serve when this returns. MetaStoreError, OSError or KafkaError if it fails.

        Then everything that was opened is closed again, so that another try can succeed.
        """
        now_ms = self.clock.now_ms()
        async with AsyncExitStack() as undo:
            await self._open(now_ms, undo)
            await self._serve_metrics()
            undo.pop_all()
        self._chores = Chores(
            self.store,
            self.partitions,
            self.replication,
            self._security,
            self.credentials,
            self.controller,
            self.settings,
            config=self._current_config,
            now_ms=self.clock.now_ms,
        )
        self._chores.start()
        self._cleaning = LogCleaner(
            self.store, self.partitions, config=self._current_config, clock=self.clock
        )
        self._cleaning.start()
        self._server.accept()
        self.failure_detector.start()

    async def _open(self, now_ms: int, undo: AsyncExitStack) -> None:
        sync = self.config.ottla_metadata_sync_enable
        self._meta_store = self._shared_store or await open_metadata_store(self.config)
        undo.push_async_callback(self._meta_store.close)
        self.metadata = MetadataCache(self._meta_store)
        self._endpoints = ClientEndpoints(self.metadata, self.recently_dead, self.clock.now_ms)
        await self.metadata.start()
        undo.push_async_callback(self.metadata.stop)
        cluster = await find_cluster_id(self._meta_store, self.metadata, self.config)
        # Certificates, passwords and limits that were changed at run time are in the store.
        self._take_broker_configs()
        self._security = Security(
            self._current_config, self.credentials, clock=self.clock, versions=self.dispatch
        )
        self.connections = BrokerConnections(
            self.node_id,
            self.metadata,
            config=self._current_config,
            security=self._security.line_security,
        )
        self._server = self._bind()
        undo.callback(self._server.stop_accepting)
        self.store = self._open_logs(cluster, now_ms)
        undo.callback(self.store.close, now_ms, sync=sync)
        self.replication = Replication(
            self.node_id,
            self._meta_store,
            self.metadata,
            config=self._current_config,
            clock=self.clock,
            open_connection=self.connections.open,
            partitions=lambda: self.partitions,
        )
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
        self._create_controller()
        self.producer_ids = ProducerIds(self.settings.allocate_producer_ids)
        self._create_coordinators()
        await self._registration.register()
        undo.push_async_callback(self._election.stop)
        await self._election.start()
        self.partitions.start(self.image, now_ms)
        undo.callback(self.groups.stop)
        self.groups.start(now_ms)
        undo.callback(self.verification.stop)
        undo.callback(self.transactions.stop)
        self.transactions.start(self.image, now_ms)
        undo.callback(self.shares.stop)
        self.shares.start(now_ms)
        self._apply_settings(self.image)
        self.disabled_apis = disabled_apis(self.image)
        self.metadata.add_listener(self._on_image)
        self._registration.watch()

    async def stop(self) -> None:
        """Only the first call stops it; later calls return at once."""
        if self._stopping:
            return
        self._stopping = True
        await self._registration.unwatch()
        steps = ShutdownSteps(lambda: self.session_state)
        if self.config.controlled_shutdown_enable:
            await steps.run("Controlled shutdown", self._registration.controlled_shutdown)
        await self._stop_tasks(STOP_GRACE_S)
        await steps.run(
            "Leaving the ISRs", lambda: leave_isrs_at_shutdown(self._writer, self.node_id)
        )
        await self._election.halt()
        await steps.run("Resigning as controller", self._election.stop)
        await steps.run("Unregistering the broker", self._registration.leave)
        await self.metadata.stop()
        while self.partitions.behind:
            self.partitions.catch_up(self.clock.now_ms())
        self.store.close(
            self.clock.now_ms(),
            high_watermarks=self.partitions.high_watermarks(),
            sync=self.config.ottla_metadata_sync_enable,
        )
        await self._meta_store.close()

    async def crash(self) -> None:
        """End as by kill -9, in a process that goes on: for tests. Nothing is flushed or logged."""
        if self._stopping:
            return
        self._stopping = True
        await self._election.halt()
        await self._registration.unwatch()
        await self._stop_tasks(0)
        await self.metadata.stop()
        self.store.abandon()
        await self._meta_store.close()

    async def _stop_tasks(self, grace_s: float) -> None:
        """Stop all tasks and timers; `stop` and `crash` share this."""
        await self.failure_detector.stop()
        await self._server.stop(grace_s)
        if self._metrics is not None:
            await self._metrics.stop()
        await self._cleaning.stop()
        self.connection_rates.stop()
        await self._chores.stop()
        # Images that still arrive, in which this broker is gone, must not restart the coordinators:
        # another broker may own the logs soon, and in tests even in this process.
        self.metadata.remove_listener(self._on_image)
        self.shares.stop()
        self.verification.stop()
        self.schema_validation.stop()
        self.transactions.stop()
        self.groups.stop()
        await self.replication.stop()
        self.connections.close()
        self.large_requests.close()

    def _create_controller(self) -> None:
        """Create the parts that change the cluster's metadata."""
        store, metadata = self._meta_store, self.metadata
        self._writer = writer = MetadataWriter(store, metadata)
        self.settings = RuntimeSettings(store, writer, broker_id=self.node_id)
        self.controller = Controller(
            store, metadata, writer, broker_id=self.node_id, config=self._current_config
        )
        self.failure_detector = FailureDetector(
            self.node_id,
            metadata,
            self.connections,
            unregister=lambda broker: unregister_dead_broker(store, writer, broker),
        )
        self._registration = Registration(
            store,
            writer,
            metadata,
            broker_id=self.node_id,
            config=self._current_config,
            listeners=self.advertised(),
            dirs=self.store.dirs,
            now_ms=self.clock.now_ms,
            on_lost=self.fence,
            on_regained=self.unfence,
            on_replaced=self.failed.set,
        )
        self._election = ControllerElection(
            self.controller,
            metadata,
            broker_id=self.node_id,
            config=self._current_config,
            now_ms=self.clock.now_ms,
        )

    def _create_coordinators(self) -> None:
        """Create the coordinators and share-partitions, and connect them with each other."""
        node_id, metadata, partitions = self.node_id, self.metadata, self.partitions
        config, clock, connections = self._current_config, self.clock, self.connections
        self.groups = GroupCoordinatorService(
            metadata, partitions, config=config, clock=clock, off_loop=self.large_requests.off_loop
        )
        self.markers = MarkerWriter(partitions, self._marker_written)
        self.transactions = TransactionCoordinatorService(
            partitions,
            self.producer_ids,
            TransactionMarkerChannel(node_id, metadata, connections, self.markers),
            config=config,
            clock=clock,
        )
        self.verification = Verification(
            node_id, metadata, connections, self.transactions, config=config, clock=clock
        )
        self.shares = SharePartitions(
            node_id,
            metadata,
            partitions,
            connections,
            config=config,
            clock=clock,
            create_topic=partial(auto_create_topic, self),
        )

    def _marker_written(self, topic: str, index: int, end: TransactionEnd) -> None:
        """Report the end of a transaction in one partition to the parts that wait for it."""
        self.verification.marked(topic, index, end.producer_id, end.ended_epoch)
        if topic == OFFSETS_TOPIC:
            self.groups.transaction_ended(index, end.producer_id, commit=end.commit)

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
            for listener in config.listeners:
                tls = self._security.tls(listener.name)
                port = server.listen(listener.name, listener.host, listener.port, tls=tls)
                bound.append(replace(listener, port=port))
        except OSError as error:
            server.stop_accepting()
            raise OSError(error.errno, f"cannot listen on {listener}: {error.strerror}") from error
        self.listeners = tuple(bound)
        return server

    def _create_access(self, config: ServerConfig) -> Access | None:
        """The authorizer, if one is configured. Without it everything is allowed."""
        if not config.authorizer_class_name:
            return None
        from ottla.broker.access import Access
        from ottla.broker.authorization.guarded_handlers import guarded_handlers

        return Access(config, guarded_handlers)

    def _application(self) -> RequestHandler:
        """The request handler of the server: this broker, or the metrics in front of it."""
        if self.config.metrics_port is None:
            return self
        from ottla.broker.metrics.page import MetricsPage

        self._metrics = MetricsPage(self, self)
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
        log.info("Serving metrics on http://%s:%d/metrics", host or "*", self.metrics_port)

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
        mute: Callable[[int], None] = no_mute,
        hold: Callable[[bool], None] = no_hold,
    ) -> ClientSession:
        return ClientSession(
            listener=listener, client_host=host, client_port=port, mute=mute, hold=hold
        )

    def authenticator(
        self, session: ClientSession, certificate: bytes | None
    ) -> SaslAuthentication | None:
        return self._security.authenticator(session, certificate)

    def rejected(self, listener: str, reason: str) -> None:
        self._security.counts.failed(listener)

    def disconnected(self, session: ClientSession) -> None:
        self.shares.disconnected(session, self.clock.now_ms())
        session.closed = True
        if session.wait is not None:
            session.wait.cancel()
        session.mute = no_mute  # which held the connection, and that holds the session
        session.hold = no_hold

    def dispatch(self, session: ClientSession, request: Request) -> Any:
        """HOT."""
        return dispatch(self, session, request)

    # What handlers ask: see `parts.py`

    @property
    def authentication_counts(self) -> AuthenticationCounts:
        return self._security.counts

    def check_security(self, config: ServerConfig) -> None:
        self._security.check(config)

    def endpoints(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        return self._endpoints.live(listener)

    def endpoints_of_late(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        return self._endpoints.live_or_recent(listener)

    def reachable(self, listener: str) -> frozenset[int]:
        return self._endpoints.reachable(listener)

    def offline_replicas(self, topic: str, partition: PartitionRegistration) -> list[int]:
        offline = [replica for replica in partition.replicas if replica not in self.image.brokers]
        if self.node_id not in offline and self.partitions.is_offline(topic, partition.index):
            offline.append(self.node_id)
        return offline

    async def auto_create(self, topic: str) -> None:
        """Create a topic that a client asked for and that does not exist; KafkaError if that fails.

        It is not an error if another broker creates it first.
        """
        spec = TopicSpec(topic)
        if topic == OFFSETS_TOPIC:
            spec = self.groups.offsets_topic()
        elif topic == TRANSACTIONS_TOPIC:
            spec = self.transactions.transactions_topic()
        elif topic == STATE_TOPIC:
            spec = self.shares.states.state_topic()
        await auto_create_topic(self, spec)

    # What changes in the cluster

    def _on_image(self, image: MetadataImage) -> None:
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
        self.connections.apply(image)
        self.recently_dead.apply(image, now_ms)
        self._apply_settings(image)
        self.disabled_apis = disabled_apis(image)
        self._coordinate(image, now_ms)

    def _catch_up(self) -> None:
        """Create or delete some logs of large topics in each turn of the loop."""
        self._catching_up = self.partitions.behind and not self._stopping
        if self._catching_up:
            self.partitions.catch_up(self.clock.now_ms())
            asyncio.get_running_loop().call_soon(self._catch_up)

    async def caught_up(self) -> None:
        while self.partitions.behind and not self._stopping:
            await asyncio.sleep(0)

    def fence(self) -> None:
        """The registration is lost: this broker leads nothing, because others may lead by now."""
        now_ms = self.clock.now_ms()
        self.partitions.fence(now_ms)
        self._coordinate(self.image, now_ms)

    def unfence(self) -> None:
        """This broker is registered again."""
        now_ms = self.clock.now_ms()
        self.partitions.unfence(now_ms)
        self._coordinate(self.image, now_ms)

    def _coordinate(self, image: MetadataImage, now_ms: int) -> None:
        self.groups.apply(image, now_ms)
        self.transactions.apply(image, now_ms)
        self.shares.apply(image, now_ms)

    def _apply_settings(self, image: MetadataImage) -> None:
        if self.access is not None:
            self.access.apply(image)
        self.credentials.apply(image)
        self.quotas.apply(image)
        self.connection_rates.apply(image, self.config)

    def _take_broker_configs(self) -> bool:
        """Apply what was set at run time to the configuration; True if that changed it."""
        default = dict(self.image.broker_config(""))
        broker = dict(self.image.broker_config(str(self.node_id)))
        if default == self.config.dynamic_default and broker == self.config.dynamic_broker:
            return False
        self.config = self.config.with_dynamic(default=default, broker=broker)
        return True

    def _current_config(self) -> ServerConfig:
        """For the parts, because a change at run time replaces the whole configuration."""
        return self.config

    def _log_settings(self, overrides: Mapping[str, str]) -> LogConfig:
        return self.schema_validation.noted(log_settings(self.config, overrides))

    def _on_offline(self, directory: LogDir) -> None:
        log.error("Stopping serving replicas in dir %s", directory.path)
        self.partitions.wake(directory)
        self.replication.on_offline(directory)
        if all(directory.offline for directory in self.store.dirs):
            log.error("Shutdown broker because all log dirs have failed")
            self.failed.set()
