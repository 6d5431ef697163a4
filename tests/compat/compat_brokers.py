"""Broker processes for the compatibility suites.

The suites talk to a process, never to objects in their own. Which one is chosen by the environment:

    (nothing)                        `ottla serve` on a free port with a directory of its own
    OTTLA_COMPAT_BROKER=apache       Apache Kafka from .cache (setup_test_clients.sh --maven)
    OTTLA_COMPAT_BOOTSTRAP=host:port a broker that runs; tests that stop one are skipped

Running the same tests on Apache Kafka is the proof that the tests are right.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from ottla.testing.ports import reserve_port

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 60.0

# What the suites expect to be able to set (broker id 0 because kafka-python's own suite names it).
# Members of the new protocols learn at a heartbeat what is theirs: every 5 s, if nobody says else.
# Records of 2023, of which there are many here, are older than a week: five minutes after the start
# of a broker they would be deleted, in the middle of whatever test runs then.
SUITE_SETTINGS = {
    "broker.id": "0",
    "auto.create.topics.enable": "true",
    "num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.replication.factor": "1",
    "default.replication.factor": "1",
    "log.retention.check.interval.ms": "86400000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


def free_port() -> int:
    """A port that is reserved for this process as long as it lives.

    Suites run in parallel: another process would soon take the port of a stopped broker.
    """
    reserved = reserve_port()
    port: int = reserved.getsockname()[1]
    reserved.detach()
    return port


class Broker:
    """One broker process: its address, its directory, its log; can be stopped and restarted."""

    name = "ottla"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.data_directory = directory / "data"
        self.log_path = directory / "server.log"
        self.settings = {**SUITE_SETTINGS, **(settings or {})}
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        overrides = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_directory),
            **self.settings,
        }
        command = [str(Path(sys.executable).parent / "ottla"), "serve"]
        for name, value in overrides.items():
            command += ["--override", f"{name}={value}"]
        return command

    def start(self) -> Broker:
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.directory
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers_api_versions(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"{self.name} did not start:\n{self.log_tail()}")
            time.sleep(0.02)
        return self

    def stop(self) -> int:
        """SIGTERM and wait; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def kill(self) -> int:
        """SIGKILL: no chance to write anything more."""
        assert self.process is not None
        self.process.kill()
        return self._wait()

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def resident_bytes(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def open_descriptors(self) -> int:
        assert self.process is not None
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def log_tail(self, size: int = 6000) -> str:
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[-size:].decode(errors="replace")

    def _wait(self) -> int:
        assert self.process is not None
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)
            raise AssertionError(f"{self.name} did not stop:\n{self.log_tail()}") from None
        finally:
            self.process = None


class ApacheBroker(Broker):
    """Apache Kafka as one KRaft node, started from the jars that Maven copied."""

    name = "apache"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self.controller_port = free_port()

    def command(self) -> list[str]:
        properties = self.directory / "server.properties"
        node = self.settings["broker.id"]
        lines = {
            "process.roles": "broker,controller",
            "node.id": node,
            "controller.quorum.voters": f"{node}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data_directory),
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **{name: value for name, value in self.settings.items() if name != "broker.id"},
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        java = ["java", "-Xmx512M", *SHORT_LIVED, "-cp", f"{kafka_jars()}/*"]
        if not (self.data_directory / "meta.properties").exists():
            tool = [*java, "kafka.tools.StorageTool"]
            cluster = subprocess.run(
                [*tool, "random-uuid"], check=True, capture_output=True, text=True
            )
            formatting = ["format", "-t", cluster.stdout.split()[-1], "-c", str(properties)]
            done = subprocess.run([*tool, *formatting], capture_output=True, text=True)
            assert done.returncode == 0, f"apache did not start:\n{done.stdout}{done.stderr}"
        return [*java, "kafka.Kafka", str(properties)]


# A JVM that lives for seconds does not live to see the work of its second compiler.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def kafka_jars() -> Path:
    """The folder of Kafka's own jars, newest version."""
    found = sorted(CACHE.glob("kafka-[0-9]*"))
    assert found, "no Kafka jars: run tools/setup_test_clients.sh --maven"
    return found[-1]


def start_broker(directory: Path, settings: dict[str, str] | None = None) -> Broker:
    kind = ApacheBroker if os.environ.get("OTTLA_COMPAT_BROKER") == "apache" else Broker
    return kind(directory, settings).start()


def answers_api_versions(port: int) -> bool:
    """True if the port speaks Kafka: an open port alone does not show that a broker is ready."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(struct.pack(">i", len(request)) + request)
            return len(sock.recv(4)) == 4
    except OSError:
        return False
