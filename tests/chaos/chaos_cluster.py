"""Three broker processes and a ZooKeeper, with a network between them that can be cut.

Every advertised address is a proxy of that network: of a broker for clients, of a broker for other
brokers, of ZooKeeper for one broker. Only the watch connects to brokers directly, so that it sees
what an isolated broker answers.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from chaos_openers import opener_by_process
from chaos_plan import CLIENTS, ZOOKEEPER
from chaos_security import ClusterSecurity, merged_settings
from compat_brokers import Broker, free_port
from compat_raw import RawClient
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.network import Network, Proxy
from ottla.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

HERE = Path(__file__).parent
SESSION_MS = 6000
START_S_MAX = 60.0

# Short timeouts, so that a storm of seconds covers what takes minutes in production.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "2000",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": "120000",  # a broker that starts while it is cut off waits
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


class ChaosBroker(Broker):
    """One broker: its proxies, its disk and its clock."""

    def __init__(self, directory: Path, number: str, settings: Mapping[str, str]) -> None:
        super().__init__(directory, {**SETTINGS, **settings, "broker.id": number})
        self.number = number
        self.internal_port = free_port()
        self.life = 0
        self.wanted = False
        """Whether it should be running."""
        self.paused = False
        self.proxies: list[Proxy] = []
        self.addresses: dict[str, str] = {}
        self.fault = "none"
        """A built-in fault that a run must find: see chaos_broker.py."""
        self._control = directory / "control.json"
        self._controlled: dict[str, float] = {}

    def command(self) -> list[str]:
        listeners = f"CLIENT://127.0.0.1:{self.port},INTERNAL://127.0.0.1:{self.internal_port}"
        overrides = {
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
            **self.settings,
            "listeners": listeners,
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": str(self.data_directory),
            **self.addresses,
        }
        launcher = str(HERE / "chaos_broker.py")
        command = [sys.executable, launcher, str(self._control), self.fault, "serve"]
        for name, value in overrides.items():
            command += ["--override", f"{name}={value}"]
        return command

    def launch(self) -> None:
        """Start the process without waiting until it serves, because it may be cut off."""
        import subprocess

        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        self.life += 1
        self.wanted = True
        for proxy in self.proxies:
            proxy.open()
        with self.log_path.open("ab") as log:
            log.write(f"--- life {self.life}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.directory
            )

    def die(self) -> None:
        """kill -9. Its ports refuse connections, like those of any dead process."""
        self.wanted = False
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.paused = False
        for proxy in self.proxies:
            proxy.shut()

    def leave(self) -> None:
        """SIGTERM; poll `gone` after that."""
        self.wanted = False
        self.resume()
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        if self.alive():
            self.process.send_signal(signal.SIGSTOP)
            self.paused = True

    def resume(self) -> None:
        if self.paused and self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def control(self, **values: float) -> None:
        """Set its clock, slow its disk."""
        self._controlled.update(values)
        self.directory.mkdir(parents=True, exist_ok=True)
        making = self._control.with_suffix(".making")
        making.write_text(json.dumps(self._controlled))
        os.replace(making, self._control)


class Cluster:
    """The cluster as the workers, the watch and the nemesis use it."""

    name = "ottla"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        numbers: Iterable[str] = ("1", "2", "3"),
        zookeepers: int = 1,
        security: ClusterSecurity | None = None,
    ) -> None:
        self.network = Network()
        self.security = security
        self._zookeeper: ZooKeeperServer | ZooKeeperEnsemble = (
            ZooKeeperServer(directory=directory / "zookeeper")
            if zookeepers == 1
            else ZooKeeperEnsemble(zookeepers)
        )
        self._victims = itertools.cycle(self._zookeeper.servers)  # each has its turn
        self._victim: ZooKeeperServer | None = None  # the one that is killed
        self.brokers = {
            number: ChaosBroker(directory / f"broker{number}", number, settings or {})
            for number in numbers
        }
        for number, broker in self.brokers.items() if security is not None else ():
            # The initial values: later changes are in the metadata store, not in this file.
            broker.settings |= security.broker_settings(number)

    def start(self) -> None:
        self.network.start()
        self._zookeeper.start()
        who = opener_by_process(self._pids)
        for number, broker in self.brokers.items():
            outside = self.network.proxy(CLIENTS, number, broker.port)
            inside = self.network.proxy(who, number, broker.internal_port)
            to_zookeepers = [
                self.network.proxy(number, ZOOKEEPER, server.port)
                for server in self._zookeeper.servers
            ]
            broker.proxies = [outside, inside]
            broker.addresses = {
                "advertised.listeners": (
                    f"CLIENT://127.0.0.1:{outside.port},INTERNAL://127.0.0.1:{inside.port}"
                ),
                "zookeeper.connect": ",".join(
                    f"127.0.0.1:{to_zookeeper.port}" for to_zookeeper in to_zookeepers
                ),
            }
            broker.launch()
        self.await_brokers()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.proxies[0].port}" for broker in self.brokers.values())

    def await_brokers(self) -> None:
        """Wait until each broker has registered and knows all the others."""
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                known = self._admin(log_level=0).list_topics(timeout=2).brokers
                if len(known) == len(self.brokers):
                    return
            except KafkaException:
                pass
            dead = [broker for broker in self.brokers.values() if not broker.alive()]
            if dead or time.monotonic() > deadline:
                raise AssertionError("the cluster did not start:\n" + self.log_tail(8000))
            time.sleep(0.1)

    def make_topic(self, name: str, partitions: int) -> None:
        new = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})
        admin = self._admin()
        admin.create_topics([new])[name].result(START_S_MAX)

    def connect(self, broker: ChaosBroker, user: str) -> RawClient:
        """Straight to a broker, past the network."""
        if self.security is None:
            return RawClient(broker.bootstrap, user)
        return self.security.connect(broker.bootstrap, user)

    def _admin(self, **settings: int) -> AdminClient:
        secured = merged_settings(self.security, "operator")
        return AdminClient({"bootstrap.servers": self.bootstrap, **secured, **settings})

    def heal(self) -> None:
        """End all faults, and start all processes that are down."""
        self.network.heal()
        self.start_zookeeper()
        self.resume_zookeeper()
        for broker in self.brokers.values():
            broker.control(clock_ms=0, sync_s=0.0)
            broker.resume()
            if not broker.wanted:
                if broker.process is not None:
                    self.end(broker)
                broker.launch()

    def end(self, broker: ChaosBroker) -> str:
        """Wait for a broker to stop; returns what went wrong."""
        assert broker.process is not None
        try:
            code = broker.process.wait(START_S_MAX)
        except Exception:
            broker.die()
            return f"broker {broker.number} did not stop:\n{broker.log_tail()}"
        broker.process = None
        for proxy in broker.proxies:
            proxy.shut()
        if code in (0, -signal.SIGTERM):  # the latter: before it was ready to listen to us
            return ""
        return f"broker {broker.number} left with {code}:\n{broker.log_tail()}"

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.die()
        self._zookeeper.close()
        self.network.stop()

    # ZooKeeper, or one of its servers: only one is down at a time

    @property
    def zookeeper_runs(self) -> bool:
        return self._victim is None

    def kill_zookeeper(self) -> None:
        self._victim = next(self._victims)
        self._victim.kill()

    def start_zookeeper(self) -> None:
        if self._victim is not None:
            self._victim.start(wait=False)
            self._victim = None

    def pause_zookeeper(self) -> None:
        next(self._victims).pause()

    def resume_zookeeper(self) -> None:
        for server in self._zookeeper.servers:
            if server is not self._victim:
                server.resume()

    # The interface of the broker in tests/delivery's Run

    process = None

    def alive(self) -> bool:
        """True if all processes are alive that should be."""
        return all(broker.alive() for broker in self.brokers.values() if broker.wanted)

    def revive(self) -> list[str]:
        """Restart the brokers that died unexpectedly; returns the ends of their logs."""
        said = []
        for broker in self.brokers.values():
            if broker.wanted and not broker.alive():
                assert broker.process is not None
                said.append(
                    f"broker {broker.number} died unasked ({broker.process.returncode}):\n"
                    + broker.log_tail()
                )
                broker.process = None
                broker.launch()
        return said

    def log_tail(self, size: int = 6000) -> str:
        return "\n".join(
            f"== broker {broker.number}\n{broker.log_tail(size)}"
            for broker in self.brokers.values()
        )

    def _pids(self) -> dict[int, str]:
        return {
            broker.process.pid: number
            for number, broker in self.brokers.items()
            if broker.process is not None
        }
