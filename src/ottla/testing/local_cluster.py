"""A real broker for the time of a test, on a free port, in a directory that goes with it.

    with LocalCluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        with cluster.producer(value=str) as producer:
            producer.send("orders", "one beer").result()

It runs in a thread of this process, or, where a test wants to kill it, in a process of its own.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

if TYPE_CHECKING:  # each is imported when it is used: a test pays for what it needs
    from ottla.client import Admin, Consumer, Producer, ShareConsumer
    from ottla.clock import Clock
    from ottla.testing.broker_process import BrokerProcess
    from ottla.testing.broker_thread import BrokerThread

    Client = Admin | Consumer[Any, Any] | Producer[Any, Any] | ShareConsumer[Any, Any]

HOST: Final = "127.0.0.1"
FLUSH_S_MAX: Final = 10.0
CREATE_S_MAX: Final = 30.0
MEMORY_DISK: Final = "/dev/shm"
MEMORY_DISK_BYTES_MIN: Final = 1 << 30

# What differs from a broker that is meant to last. Nothing here outlives a power cut, the first
# group waits for nobody, and the topics of coordinators are one log instead of fifty.
DEFAULTS: Final[dict[str, str]] = {
    "ottla.metadata.sync.enable": "false",
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
OURS: Final = frozenset({"listeners", "log.dir", "log.dirs"})

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
    """One broker. `config` are Kafka's broker properties; they win over DEFAULTS.

    With a `directory` the data stays there after `stop`; without one it is removed. Clients that
    were made here are closed by `stop`, if the test has not done so. A `clock` (ManualClock) is
    what the broker takes its time from; only a thread can share it.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        process: bool = False,
        clock: Clock | None = None,
    ) -> None:
        if brokers != 1:
            raise NotImplementedError(
                f"LocalCluster(brokers={brokers}): one broker is all there is,"
                " replication is not built yet"
            )
        if refused := OURS.intersection(config or ()):
            raise ValueError(f"{', '.join(sorted(refused))}: LocalCluster sets this by itself")
        if process and clock is not None:
            raise ValueError(
                "a process has a clock of its own: LocalCluster(clock=...) is a thread"
            )
        self._config = {**DEFAULTS, **(config or {})}
        self._process = process
        self._clock = clock
        self._own_directory: tempfile.TemporaryDirectory[str] | None = None
        self._given_directory = directory
        self._reserved: socket.socket | None = None
        self._port: int | None = None
        self._broker: BrokerThread | BrokerProcess | None = None
        self._clients: WeakSet[Client] = WeakSet()

    # Where it is

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError("the cluster is not started")
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def directory(self) -> Path:
        """The broker's log.dirs: partition 0 of a topic lies in `directory / "topic-0"`."""
        if self._given_directory is not None:
            return self._given_directory
        if self._own_directory is None:
            raise RuntimeError("the cluster is not started")
        return Path(self._own_directory.name)

    # Start and stop

    def start(self) -> Self:
        """Serve when this returns. Whatever keeps the broker from starting is raised."""
        if self._port is not None:
            raise RuntimeError("the cluster is started already")
        if self._given_directory is None:
            self._own_directory = tempfile.TemporaryDirectory(prefix="ottla-", dir=memory_disk())
        try:
            self._start_broker(0)
        except BaseException:
            self._let_go()
            raise
        return self

    def stop(self) -> None:
        """Close clients, broker, files. Stopping twice is stopping once."""
        with ExitStack() as stack:  # backwards, and each of them even if one before it failed
            stack.callback(self._let_go)
            stack.callback(self._stop_broker)
            for client in list(self._clients):
                stack.callback(self._close_client, client)

    def restart(self) -> None:
        """Stop, unless it was killed, and start again: with the same data, on the same port."""
        port = self.port
        self._stop_broker()
        self._start_broker(port)

    def kill(self) -> None:
        """kill -9. `restart` starts it again."""
        from ottla.testing.broker_process import BrokerProcess

        if not self._process:
            raise RuntimeError("a thread can't be killed: LocalCluster(process=True) can")
        broker, self._broker = self._broker, None
        if not isinstance(broker, BrokerProcess):
            raise RuntimeError("there is no broker to kill: the cluster does not run")
        broker.kill()

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
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        """KafkaError says why it can't be."""
        from ottla.client.lines import Line, check
        from ottla.wire.apis import ApiKey
        from ottla.wire.messages import create_topics as messages

        configured = [messages.CreatableTopicConfig(*each) for each in (configs or {}).items()]
        topic = messages.CreatableTopic(name, partitions, 1, [], configured)
        line = Line(HOST, self.port, settings={}, timeout_s=CREATE_S_MAX)
        try:
            answer = line.call(
                messages.CreateTopicsRequest([topic], timeout=round(CREATE_S_MAX * 1000)),
                ApiKey.CREATE_TOPICS,
                messages.CreateTopicsResponse,
            )
        finally:
            line.close()
        result = answer.topics[0]
        check(result.error_code, result.error_message)

    def producer(self, **options: Any) -> Producer[Any, Any]:
        """An ottla.client.Producer, with its own `options`.

        It is as quick as it can be: PRODUCER_SETTINGS. Who asks for a `delivery` gets that word's
        settings; who gives `settings` has the last word.
        """
        from ottla.client import Producer

        quick = CLIENT_SETTINGS if "delivery" in options else PRODUCER_SETTINGS
        settings = {**quick, **options.pop("settings", {})}
        producer = Producer[Any, Any](self.bootstrap_servers, settings=settings, **options)
        self._clients.add(producer)
        return producer

    def consumer(
        self, *topics: str, group: str | None = None, **options: Any
    ) -> Consumer[Any, Any]:
        """An ottla.client.Consumer, which starts at the beginning; `options` are its own."""
        from ottla.client import Consumer

        options.setdefault("auto_offset_reset", "earliest")
        settings = {**CLIENT_SETTINGS, **options.pop("settings", {})}
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
        with Admin(self.bootstrap_servers, settings=CLIENT_SETTINGS) as admin:
            configs = {
                each.name: each for each in admin.configs.describe(ResourceType.GROUP, group)
            }
            if configs[name].source == ConfigSource.DEFAULT_CONFIG:
                admin.configs.alter(ResourceType.GROUP, group, set={name: "earliest"})
        settings = {**CLIENT_SETTINGS, **options.pop("settings", {})}
        consumer = ShareConsumer[Any, Any](
            self.bootstrap_servers, topics, group=group, settings=settings, **options
        )
        self._clients.add(consumer)
        return consumer

    def admin(self) -> Admin:
        from ottla.client import Admin

        admin = Admin(self.bootstrap_servers, settings=CLIENT_SETTINGS)
        self._clients.add(admin)
        return admin

    # What start and stop are made of

    def _start_broker(self, port: int) -> None:
        if self._process:
            self._port = self._start_process()
        else:
            from ottla.testing.broker_thread import BrokerThread

            thread = BrokerThread(self._properties(port), self._clock)
            self._port = thread.start()
            self._broker = thread

    def _start_process(self) -> int:
        from ottla.testing.broker_process import BrokerProcess

        if self._reserved is None:
            self._reserved = reserve_port()
        port: int = self._reserved.getsockname()[1]
        process = BrokerProcess(self._properties(port), port)
        process.start()
        self._broker = process
        return port

    def _properties(self, port: int) -> dict[str, str]:
        where = {"listeners": f"PLAINTEXT://{HOST}:{port}", "log.dirs": str(self.directory)}
        return {**self._config, **where}

    def _stop_broker(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            broker.stop()

    def _close_client(self, client: Client) -> None:
        from ottla.client import Producer

        if not isinstance(client, Producer):
            client.close()
            return
        if self._broker is None:
            client.raw.purge()  # records for a broker that was killed reach nobody
        client.close(FLUSH_S_MAX)

    def _let_go(self) -> None:
        self._port = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        if self._own_directory is not None:
            self._own_directory.cleanup()
            self._own_directory = None


def reserve_port() -> socket.socket:
    """A socket that keeps a port for a process which is still to start, or to start again.

    It is bound but does not listen: with SO_REUSEADDR on both, Linux lets the broker listen there,
    gives the port to nobody who asks for any free one, and connects no client from it (one that
    knocks before the broker is up could else be connected to itself).
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((HOST, 0))
    return reserved


def memory_disk() -> str | None:
    """A directory in memory, where files come and go quicker; None for the usual one.

    Whoever sets TMPDIR has chosen already, and a container's few megabytes are not enough.
    """
    try:
        status = os.statvfs(MEMORY_DISK)
    except OSError:
        return None
    roomy = status.f_bavail * status.f_frsize >= MEMORY_DISK_BYTES_MIN
    writable = os.access(MEMORY_DISK, os.W_OK | os.X_OK)
    return MEMORY_DISK if roomy and writable and "TMPDIR" not in os.environ else None
