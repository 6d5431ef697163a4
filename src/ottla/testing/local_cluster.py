"""Real brokers for the time of a test, on free ports, in a directory that goes with them.

    with LocalCluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        with cluster.producer(value=str) as producer:
            producer.send("orders", "one beer").result()

They run in a thread of this process, or, where a test wants it real, in processes of their own.
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

if TYPE_CHECKING:  # each is imported when it is used: a test pays for what it needs
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

# What differs from a broker that is meant to last. Nothing here outlives a power cut, the first
# group waits for nobody, and the topics of coordinators are one log instead of fifty.
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

# A broker that is back is found at once. Left alone, librdkafka waits up to ten seconds for it, or
# goes back to the bootstrap servers, which takes a second.
CLIENT_SETTINGS: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "metadata.recovery.strategy": "none",
}
# Idempotence is off: librdkafka asks for a producer id half a second after its start, if not later.
PRODUCER_SETTINGS: Final = {**CLIENT_SETTINGS, "linger.ms": 0, "enable.idempotence": False}


class LocalCluster:
    """One broker, or several: their ids count from 0. `config` are Kafka's broker properties, for
    each of them; they win over DEFAULTS.

    With a `directory` the data stays there after `stop`; without one it is removed. Clients that
    were made here are closed by `stop`, if the test has not done so. A `clock` (ManualClock) is
    what brokers take their time from; only a thread can share it.

    Brokers in a thread share one store of metadata; processes meet at a ZooKeeper that is started
    with them, or at an ensemble of `zookeepers`. `each` gives a broker, by its id, properties of
    its own whenever it starts; they win over all others.

    `security` ("ssl", "sasl_plaintext", "sasl_ssl") closes the brokers to strangers, with
    certificates made for the test and `users`, whose passwords are given. Clients made here are the
    first of them; `client_settings` has what another client needs.

    `registry` starts a schema registry beside it (`registry_url`), which the brokers ask about
    records of topics with confluent.value.schema.validation.
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
            raise ValueError(f"{', '.join(sorted(refused))}: LocalCluster sets this by itself")
        if process and clock is not None:
            raise ValueError(
                "a process has a clock of its own: LocalCluster(clock=...) is a thread"
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

    # Where it is

    @property
    def port(self) -> int:
        """The first broker's."""
        return self.port_of(self.broker_ids[0])

    def port_of(self, broker_id: int) -> int:
        if not self._reserved:
            raise RuntimeError("the cluster is not started")
        port: int = self._reserved[broker_id].getsockname()[1]
        return port

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port_of(each)}" for each in self.broker_ids)

    @property
    def directory(self) -> Path:
        """A single broker's log.dirs: partition 0 of a topic lies in `directory / "topic-0"`.

        Several have theirs below it: `directory_of`.
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
        """What a client sets to be let in, by librdkafka's names; as the first user by default."""
        return self._security.client_settings(user or next(iter(self._security.users)))

    @property
    def registry_url(self) -> str:
        """What clients call schema.registry.url."""
        if self._registry is None:
            raise RuntimeError("LocalCluster(registry=True) has a registry, once it is started")
        return self._registry.url

    # Start and stop

    def start(self) -> Self:
        """Serve when this returns. Whatever keeps a broker from starting is raised."""
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
            self._reserved = {each: reserve_port() for each in self.broker_ids}
            if self._with_registry:
                # Brokers start before it, and must know where it will be.
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
        """Close clients, brokers, files. Stopping twice is stopping once."""
        with ExitStack() as stack:  # backwards, and each of them even if one before it failed
            stack.callback(self._let_go)
            stack.callback(self._stop_host)
            stack.callback(self._stop_registry)
            for client in list(self._clients):
                stack.callback(self._close_client, client)

    def start_broker(self, broker_id: int) -> None:
        """One that was stopped or killed: with the same data, on the same port."""
        if broker_id in self._running:
            raise RuntimeError(f"broker {broker_id} runs already")
        self._start_brokers([broker_id])

    def stop_broker(self, broker_id: int) -> None:
        """A clean end."""
        host = self._started_host()
        self._leave(broker_id)
        host.stop_broker(broker_id)

    def kill(self, broker_id: int | None = None) -> None:
        """kill -9, or for a thread as much of it as one process allows. `restart` brings it back.

        A single broker need not be named.
        """
        host, broker_id = self._started_host(), self._named(broker_id)
        self._leave(broker_id)
        host.kill_broker(broker_id)

    def restart(self, broker_id: int | None = None) -> None:
        """Stop, unless it was killed, and start again; without an id all of them, in turn."""
        host = self._started_host()
        for each in self.broker_ids if broker_id is None else (broker_id,):
            if each in self._running:
                self._leave(each)
                host.stop_broker(each)
            self.start_broker(each)

    def pause(self, broker_id: int | None = None) -> None:
        """SIGSTOP: its connections stay, and it answers nobody until `resume`."""
        broker_id = self._named(broker_id)
        self._processes().broker(broker_id).pause()
        self._paused.add(broker_id)

    def resume(self, broker_id: int | None = None) -> None:
        broker_id = self._named(broker_id)
        self._processes().broker(broker_id).resume()
        self._paused.discard(broker_id)

    def expire(self, broker_id: int) -> None:
        """End a thread's session on the metadata, as if nothing had been heard of it for long."""
        self._thread().expire_session(broker_id)

    @property
    def zookeeper(self) -> ZooKeeperServer | ZooKeeperEnsemble:
        """Where several processes meet: it can be killed, paused and started again."""
        found = self._processes().zookeeper
        if found is None:
            raise RuntimeError("a single broker has no ZooKeeper")
        return found

    def log(self, broker_id: int | None = None) -> str:
        """The end of what a process has said."""
        return self._processes().broker(self._named(broker_id)).log()

    def broker(self, broker_id: int | None = None) -> Broker:
        """The broker itself, where it runs in a thread: look at it in `call`."""
        return self._thread().broker(self._named(broker_id))

    def call(self, function: Callable[[], T]) -> T:
        """The function's result, from the thread that owns the brokers' state."""
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

    # Its use

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = 1,
    ) -> None:
        """On return every broker that runs knows it. KafkaError says why it can't be."""
        from ottla.testing.topics import create_topic, wait_for_topic

        ports = [self.port_of(each) for each in sorted(self._running)]
        settings = self._security.client_settings()
        create_topic(ports, name, partitions, replication_factor, configs or {}, settings)
        if self._several:
            wait_for_topic(ports, name, settings)

    def producer(self, **options: Any) -> Producer[Any, Any]:
        """An ottla.client.Producer, with its own `options`.

        It is as quick as it can be: PRODUCER_SETTINGS. Who asks for a `delivery` gets that word's
        settings; who gives `settings` has the last word.
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
        """An ottla.client.Consumer, which starts at the beginning; `options` are its own."""
        from ottla.client import Consumer

        options.setdefault("auto_offset_reset", "earliest")
        settings = {**self._settings, **options.pop("settings", {})}
        consumer = Consumer[Any, Any](
            self.bootstrap_servers, topics or None, group=group, settings=settings, **options
        )
        self._clients.add(consumer)
        return consumer

    def share_consumer(self, *topics: str, group: str, **options: Any) -> ShareConsumer[Any, Any]:
        """An ottla.client.ShareConsumer, which starts at the beginning; `options` are its own.

        Where a share group starts is a config of the group: one that a test has set stays.
        """
        from ottla.client import Admin, ResourceType, ShareConsumer
        from ottla.client.configs import ConfigSource

        name = "share.auto.offset.reset"
        with Admin(self.bootstrap_servers, settings=self._settings) as admin:
            configs = {
                each.name: each for each in admin.configs.describe(ResourceType.GROUP, group)
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

    # What start and stop are made of

    def _new_registry(self, reserved: socket.socket) -> RegistryServer:
        from ottla.registry.schema_registry import SchemaRegistry
        from ottla.registry.server import RegistryServer

        settings = self.client_settings()
        registry = SchemaRegistry(self.bootstrap_servers, settings=settings)
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
        """When this returns, every broker knows of them."""
        wanted = {each: (self.port_of(each), self._properties(each)) for each in broker_ids}
        self._started_host().start_brokers(wanted)
        self._running.update(broker_ids)
        if self._several:
            from ottla.testing.topics import wait_for_brokers

            awake = [self.port_of(each) for each in sorted(self._running - self._paused)]
            wait_for_brokers(awake, broker_ids, self._security.client_settings())

    def _started_host(self) -> Host:
        if self._host is None:
            raise RuntimeError("the cluster is not started")
        return self._host

    def _thread(self) -> BrokerThread:
        from ottla.testing.broker_thread import BrokerThread

        host = self._started_host()
        if not isinstance(host, BrokerThread):
            raise RuntimeError("a broker in another process can't be looked into")
        return host

    def _processes(self) -> BrokerProcesses:
        from ottla.testing.broker_processes import BrokerProcesses

        host = self._started_host()
        if not isinstance(host, BrokerProcesses):
            raise RuntimeError("a thread can't: LocalCluster(process=True) can")
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
        ours = {
            **self._security.broker_properties(self.port_of(broker_id)),
            "log.dirs": str(self.directory_of(broker_id)),
        }
        if self._several:
            ours |= {"node.id": str(broker_id), **self._started_host().properties}
        known = {}
        if self._registry_port is not None:
            port = self._registry_port.getsockname()[1]
            known["confluent.schema.registry.url"] = f"http://{HOST}:{port}"
        return {**known, **self._config, **ours, **(self._each(broker_id) if self._each else {})}

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
            client.raw.purge()  # records for a broker that was killed reach nobody
        client.close(FLUSH_S_MAX)

    def _let_go(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        if self._registry_port is not None:
            self._registry_port.close()
        self._registry_port = None
        for made in (self._own_directory, self._certificates):
            if made is not None:
                made.cleanup()
        self._own_directory = self._certificates = None


def replicated(brokers: int) -> dict[str, str]:
    """The topics of coordinators have as many replicas as in a real cluster, if it can be."""
    if brokers == 1:
        return {}
    from ottla.config.tables.zookeeper import CLUSTER_DEFAULTS

    factors = {3: str(min(3, brokers)), 2: str(min(2, brokers))}
    return {name: factors[count] for name, count in CLUSTER_DEFAULTS.items()}


def memory_disk(folder: str = MEMORY_DISK, *, bytes_min: int = MEMORY_DISK_BYTES_MIN) -> str | None:
    """A directory in memory, where files come and go quicker; None for the usual one.

    Whoever sets TMPDIR has chosen already, and a container's few megabytes are not enough.
    """
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    roomy = status.f_bavail * status.f_frsize >= bytes_min
    writable = os.access(folder, os.W_OK | os.X_OK)
    return folder if roomy and writable and "TMPDIR" not in os.environ else None
