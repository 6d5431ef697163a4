"""Real brokers for the time of a test, on free ports, in a temporary directory.

    with LocalCluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        with cluster.producer(value=str) as producer:
            producer.send("orders", "one beer").result()

They run in a thread of this process, or in processes of their own where a test wants that.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from weakref import WeakSet

from ottla.extras import require
from ottla.testing.local_security import LocalSecurity
from ottla.testing.ports import HOST, reserve_port

if TYPE_CHECKING:  # imported at the first use: a test pays for what it needs
    from ottla.broker.broker import Broker
    from ottla.client import Admin, Consumer, Producer, ShareConsumer
    from ottla.clock import SteadyClock
    from ottla.registry.server import RegistryServer
    from ottla.testing.broker_processes import BrokerProcesses
    from ottla.testing.broker_thread import BrokerThread
    from ottla.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

    Host = BrokerThread | BrokerProcesses
    Client = Admin | Consumer[Any, Any] | Producer[Any, Any] | ShareConsumer[Any, Any]

T = TypeVar("T")

FLUSH_S_MAX: Final = 10.0
MEMORY_DISK: Final = "/dev/shm"
MEMORY_DISK_BYTES_MIN: Final = 1 << 30

# The differences to a broker that is meant to last. Nothing needs to survive a power cut, the first
# group waits for no other member, and the coordinators' topics have one partition instead of fifty.
DEFAULTS: Final[dict[str, str]] = {
    "ottla.metadata.sync.enable": "false",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
OURS: Final = frozenset({"listeners", "log.dir", "log.dirs"})
IDS: Final = frozenset({"node.id", "broker.id"})
JOURNAL: Final = "ottla-metadata.journal"

# Reconnect at once to a broker that is back. By default librdkafka waits up to ten seconds for it,
# or goes back to the bootstrap servers, which takes a second.
CLIENT_SETTINGS: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "metadata.recovery.strategy": "none",
}
# Idempotence is off, because librdkafka needs at least half a second for a producer id.
PRODUCER_SETTINGS: Final = {**CLIENT_SETTINGS, "linger.ms": 0, "enable.idempotence": False}


class LocalCluster:
    """One broker, or several: their ids count from 0. `config` has broker properties for all of
    them, which win over DEFAULTS.

    With a `directory` the data stays there after `stop`; without one it is removed. `stop` closes
    all clients that were made here. A `clock` (ManualClock) is the brokers' source of time; only a
    thread can share it.

    Brokers in a thread share a metadata store; processes use a ZooKeeper that is started with
    them, or an ensemble of `zookeepers`. `each` returns more properties for a broker, by its id,
    whenever that broker starts; they win over all others.

    `security` ("ssl", "sasl_plaintext", "sasl_ssl") secures the brokers, with certificates made for
    the test and `users` with their passwords. Clients made here log in as the first user;
    `client_settings` has what another client needs.

    `registry` starts a schema registry beside the cluster (`registry_url`), which brokers use for
    topics with confluent.value.schema.validation.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        process: bool = False,
        clock: SteadyClock | None = None,
        zookeepers: int = 1,
        each: Callable[[int], Mapping[str, str]] | None = None,
        security: str = "plaintext",
        users: Mapping[str, str] | None = None,
        registry: bool = False,
    ) -> None:
        given = dict(config or {})
        if refused := (OURS if brokers == 1 else OURS | IDS).intersection(given):
            raise ValueError(f"{', '.join(sorted(refused))}: LocalCluster sets this itself")
        if process and clock is not None:
            raise ValueError(
                "LocalCluster(clock=...) needs a thread: processes can't share a clock"
            )
        first = given.get("node.id", given.get("broker.id", "0"))
        self.broker_ids = range(brokers) if brokers > 1 else range(int(first), int(first) + 1)
        self._config = {**DEFAULTS, **replicated(brokers), **given}
        self._process = process
        self._zookeepers = zookeepers if brokers > 1 else 0
        self._each = each
        self._security = LocalSecurity(security, users)
        self._clock = clock
        if registry:
            require("LocalCluster(registry=True)", "registry")
        self._with_registry = registry
        self._registry: RegistryServer | None = None
        self._registry_port: socket.socket | None = None
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        self._certificates: tempfile.TemporaryDirectory[str] | None = None
        self._given_directory = directory
        self._reserved: dict[int, socket.socket] = {}
        self._host: Host | None = None
        self._running: set[int] = set()
        self._paused: set[int] = set()
        self._clients: WeakSet[Client] = WeakSet()

    # Addresses

    @property
    def port(self) -> int:
        """The first broker's port."""
        return self.port_of(self.broker_ids[0])

    def port_of(self, broker_id: int) -> int:
        if not self._reserved:
            raise RuntimeError("the cluster is not started")
        port: int = self._reserved[broker_id].getsockname()[1]
        return port

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port_of(broker)}" for broker in self.broker_ids)

    @property
    def directory(self) -> Path:
        """A single broker's log.dirs: partition 0 of a topic is in `directory / "topic-0"`.

        Several brokers have subdirectories: `directory_of`.
        """
        if self._given_directory is not None:
            return self._given_directory
        if self._own_directory is None:
            raise RuntimeError("the cluster is not started")
        return Path(self._own_directory.name)

    def directory_of(self, broker_id: int) -> Path:
        return self.directory / f"broker-{broker_id}" if self._several else self.directory

    @property
    def _several(self) -> bool:
        return len(self.broker_ids) > 1

    def client_settings(self, user: str | None = None) -> dict[str, str]:
        """A client's settings to log in, by librdkafka's names; default: the first user."""
        return self._security.client_settings(user or next(iter(self._security.users)))

    @property
    def registry_url(self) -> str:
        """The value for schema.registry.url."""
        if self._registry is None:
            raise RuntimeError("LocalCluster(registry=True) has a registry, once it is started")
        return self._registry.url

    # Start and stop

    def start(self) -> Self:
        """Returns once the brokers serve. Raises what keeps one from starting."""
        if self._host is not None:
            raise RuntimeError("the cluster is started already")
        if self._given_directory is None:
            self._own_directory = tempfile.TemporaryDirectory(prefix="ottla-", dir=memory_disk())
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            if self._security.has_tls:
                self._certificates = tempfile.TemporaryDirectory(prefix="ottla-certificates-")
                self._security.prepare(Path(self._certificates.name))
            host = self._new_host()
            host.start()
            self._host = host
            self._reserved = {broker: reserve_port() for broker in self.broker_ids}
            if self._with_registry:
                # Brokers start before the registry, and need its address.
                self._registry_port = reserve_port()
            self._start_brokers(self.broker_ids)
            if self._registry_port is not None:
                self._registry = self._new_registry(self._registry_port).start()
        except BaseException:
            self._stop_host()
            self._let_go()
            raise
        return self

    def stop(self) -> None:
        """Close clients, brokers, files. A second stop does nothing."""
        with ExitStack() as stack:  # in reverse order, and each even if another one fails
            stack.callback(self._let_go)
            stack.callback(self._stop_host)
            stack.callback(self._stop_registry)
            for client in list(self._clients):
                stack.callback(self._close_client, client)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed, with the same data and port."""
        if broker_id in self._running:
            raise RuntimeError(f"broker {broker_id} runs already")
        self._start_brokers([broker_id])

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly."""
        host = self._started_host()
        self._leave(broker_id)
        host.stop_broker(broker_id)

    def kill(self, broker_id: int | None = None) -> None:
        """kill -9, or for a thread as much of it as one process allows. `restart` brings the broker
        back.

        A single broker need not be named.
        """
        host, broker_id = self._started_host(), self._named(broker_id)
        self._leave(broker_id)
        host.kill_broker(broker_id)

    def restart(self, broker_id: int | None = None) -> None:
        """Stop, unless it was killed, and start again; without an id all brokers, one by one."""
        host = self._started_host()
        for broker in self.broker_ids if broker_id is None else (broker_id,):
            if broker in self._running:
                self._leave(broker)
                host.stop_broker(broker)
            self.start_broker(broker)

    def pause(self, broker_id: int | None = None) -> None:
        """SIGSTOP: connections stay open, but the broker does not answer until `resume`."""
        broker_id = self._named(broker_id)
        self._processes().broker(broker_id).pause()
        self._paused.add(broker_id)

    def resume(self, broker_id: int | None = None) -> None:
        broker_id = self._named(broker_id)
        self._processes().broker(broker_id).resume()
        self._paused.discard(broker_id)

    def expire(self, broker_id: int) -> None:
        """Expire a thread's session with the metadata store."""
        self._thread().expire_session(broker_id)

    @property
    def zookeeper(self) -> ZooKeeperServer | ZooKeeperEnsemble:
        """The ZooKeeper of several processes: it can be killed, paused and started again."""
        found = self._processes().zookeeper
        if found is None:
            raise RuntimeError("a single broker has no ZooKeeper")
        return found

    def log(self, broker_id: int | None = None) -> str:
        """The end of a process's log."""
        return self._processes().broker(self._named(broker_id)).log()

    def broker(self, broker_id: int | None = None) -> Broker:
        """The broker object in a thread: read its state in `call`."""
        return self._thread().broker(self._named(broker_id))

    def call(self, function: Callable[[], T]) -> T:
        """Run the function in the thread that owns the brokers' state, and return its result."""
        return self._thread().call(function)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # Topics and clients

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
    ) -> None:
        """Returns once every running broker knows the topic. KafkaError if it can't be created."""
        from ottla.testing.topics import create_topic, wait_for_topic

        ports = [self.port_of(broker) for broker in sorted(self._running)]
        settings = self._security.client_settings()
        create_topic(ports, name, partitions, replication_factor, configs or {}, settings)
        if self._several:
            wait_for_topic(ports, name, settings)

    def producer(self, **options: Any) -> Producer[Any, Any]:
        """An ottla.client.Producer, with its own `options`.

        It is tuned for latency: PRODUCER_SETTINGS. A `delivery` brings that word's settings
        instead; `settings` win over both.
        """
        from ottla.client import Producer

        quick = CLIENT_SETTINGS if "delivery" in options else PRODUCER_SETTINGS
        settings = {**quick, **self.client_settings(), **options.pop("settings", {})}
        producer = Producer[Any, Any](self.bootstrap_servers, settings=settings, **options)
        self._clients.add(producer)
        return producer

    def consumer(
        self, *topics: str, group: str | None = None, **options: Any
    ) -> Consumer[Any, Any]:
        """An ottla.client.Consumer that starts at the beginning, with its own `options`."""
        from ottla.client import Consumer

        options.setdefault("auto_offset_reset", "earliest")
        settings = {**self._settings, **options.pop("settings", {})}
        consumer = Consumer[Any, Any](
            self.bootstrap_servers, topics or None, group=group, settings=settings, **options
        )
        self._clients.add(consumer)
        return consumer

    def share_consumer(self, *topics: str, group: str, **options: Any) -> ShareConsumer[Any, Any]:
        """An ottla.client.ShareConsumer that starts at the beginning, with its own `options`.

        The start of a share group is a config of the group: one that a test has set stays.
        """
        from ottla.client import Admin, ResourceType, ShareConsumer
        from ottla.client.configs import ConfigSource

        name = "share.auto.offset.reset"
        with Admin(self.bootstrap_servers, settings=self._settings) as admin:
            configs = {
                config.name: config for config in admin.configs.describe(ResourceType.GROUP, group)
            }
            if configs[name].source == ConfigSource.DEFAULT_CONFIG:
                admin.configs.alter(ResourceType.GROUP, group, set={name: "earliest"})
        settings = {**self._settings, **options.pop("settings", {})}
        consumer = ShareConsumer[Any, Any](
            self.bootstrap_servers, topics, group=group, settings=settings, **options
        )
        self._clients.add(consumer)
        return consumer

    def admin(self) -> Admin:
        from ottla.client import Admin

        admin = Admin(self.bootstrap_servers, settings=self._settings)
        self._clients.add(admin)
        return admin

    @property
    def _settings(self) -> dict[str, Any]:
        return {**CLIENT_SETTINGS, **self.client_settings()}

    # Starting and stopping

    def _new_registry(self, reserved: socket.socket) -> RegistryServer:
        from ottla.registry.kafka_schema_registry import KafkaSchemaRegistry
        from ottla.registry.server import RegistryServer

        settings = self.client_settings()
        registry = KafkaSchemaRegistry(self.bootstrap_servers, settings=settings)
        return RegistryServer(registry, HOST, reserved.getsockname()[1])

    def _stop_registry(self) -> None:
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.stop()

    def _new_host(self) -> Host:
        if self._process:
            from ottla.testing.broker_processes import BrokerProcesses

            return BrokerProcesses(self._zookeepers, self._security.client_settings())
        from ottla.testing.broker_thread import BrokerThread

        return BrokerThread(
            self._clock, journal=self.directory / JOURNAL if self._several else None
        )

    def _start_brokers(self, broker_ids: Sequence[int]) -> None:
        """Returns once every broker knows of these."""
        wanted = {broker: (self.port_of(broker), self._properties(broker)) for broker in broker_ids}
        self._started_host().start_brokers(wanted)
        self._running.update(broker_ids)
        if self._several:
            from ottla.testing.topics import wait_for_brokers

            awake = [self.port_of(broker) for broker in sorted(self._running - self._paused)]
            wait_for_brokers(awake, broker_ids, self._security.client_settings())

    def _started_host(self) -> Host:
        if self._host is None:
            raise RuntimeError("the cluster is not started")
        return self._host

    def _thread(self) -> BrokerThread:
        from ottla.testing.broker_thread import BrokerThread

        host = self._started_host()
        if not isinstance(host, BrokerThread):
            raise RuntimeError("the objects of a broker in another process are out of reach")
        return host

    def _processes(self) -> BrokerProcesses:
        from ottla.testing.broker_processes import BrokerProcesses

        host = self._started_host()
        if not isinstance(host, BrokerProcesses):
            raise RuntimeError("this needs LocalCluster(process=True)")
        return host

    def _named(self, broker_id: int | None) -> int:
        if broker_id is None and self._several:
            raise ValueError(f"which of the brokers {list(self.broker_ids)}?")
        return self.broker_ids[0] if broker_id is None else broker_id

    def _leave(self, broker_id: int) -> None:
        if broker_id not in self._running:
            raise RuntimeError(f"broker {broker_id} does not run")
        self._running.discard(broker_id)
        self._paused.discard(broker_id)

    def _properties(self, broker_id: int) -> dict[str, str]:
        managed = {
            **self._security.broker_properties(self.port_of(broker_id)),
            "log.dirs": str(self.directory_of(broker_id)),
        }
        if self._several:
            managed |= {"node.id": str(broker_id), **self._started_host().properties}
        known = {}
        if self._registry_port is not None:
            port = self._registry_port.getsockname()[1]
            known["confluent.schema.registry.url"] = f"http://{HOST}:{port}"
        return {**known, **self._config, **managed, **(self._each(broker_id) if self._each else {})}

    def _stop_host(self) -> None:
        host, self._host = self._host, None
        self._running.clear()
        self._paused.clear()
        if host is not None:
            host.stop()

    def _close_client(self, client: Client) -> None:
        from ottla.client import Producer

        if not isinstance(client, Producer):
            client.close()
            return
        if not self._running:
            client.raw.purge()  # records for a killed broker can't be delivered
        client.close(FLUSH_S_MAX)

    def _let_go(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        if self._registry_port is not None:
            self._registry_port.close()
        self._registry_port = None
        for directory in (self._own_directory, self._certificates):
            if directory is not None:
                directory.cleanup()
        self._own_directory = self._certificates = None


def replicated(brokers: int) -> dict[str, str]:
    """As many replicas of the coordinators' topics as in a real cluster, if there are enough
    brokers."""
    if brokers == 1:
        return {}
    from ottla.config.tables.zookeeper import CLUSTER_DEFAULTS

    factors = {3: str(min(3, brokers)), 2: str(min(2, brokers))}
    return {name: factors[count] for name, count in CLUSTER_DEFAULTS.items()}


def memory_disk(folder: str = MEMORY_DISK, *, bytes_min: int = MEMORY_DISK_BYTES_MIN) -> str | None:
    """A directory in memory, where creating and deleting files is faster; None for the default.

    A TMPDIR is an explicit choice, and a container's few megabytes are not enough.
    """
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    roomy = status.f_bavail * status.f_frsize >= bytes_min
    writable = os.access(folder, os.W_OK | os.X_OK)
    return folder if roomy and writable and "TMPDIR" not in os.environ else None
