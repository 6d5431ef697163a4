"""Kafka Streams applications of the new protocol, as processes: tools/clients/streams-groups."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

from compat_brokers import CACHE, REPOSITORY, SHORT_LIVED
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

JARS = CACHE / "kafka-streams"
SOURCES = REPOSITORY / "tools/clients/streams-groups"
PATIENCE_S = 150.0

# A member that was killed is missed after its session: 45 s in production, 6 s here.
SETTINGS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
_TASKS = re.compile(r"tasks (\S*) standby (\S*)")


def compile_app(directory: Path) -> Path:
    """The folder of its classes."""
    assert JARS.exists(), "run tools/setup_test_clients.sh --maven first"
    sources = [str(path) for path in sorted(SOURCES.glob("*.java"))]
    javac = ["javac", "-nowarn", "-proc:none", "-Xlint:none", "-d", str(directory)]
    subprocess.run([*javac, "-cp", f"{JARS}/*", *sources], check=True)
    return directory


class StreamsApp:
    """One process of an application; its lines are read as they come."""

    def __init__(
        self, classes: Path, kind: str, bootstrap: str, state: Path, *settings: str
    ) -> None:
        java = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{JARS}/*:{classes}", "StreamsGroupApp"]
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*java, kind, bootstrap, f"app-{kind}", str(state), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def _tasks(self, which: int) -> set[str]:
        for line in reversed(self.lines):
            if found := _TASKS.fullmatch(line):
                return set(found[which].split(",")) - {""}
        return set()

    def active(self) -> set[str]:
        return self._tasks(1)

    def standby(self) -> set[str]:
        return self._tasks(2)

    def errors(self) -> list[str]:
        return [line for line in self.lines if line.startswith("error ")]

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def close(self) -> None:
        """Stops the application cleanly, so that it leaves its group."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._end()

    def _end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.wait(90)
        self._reader.join(60)
        self.process.stdin.close()
        self.process.stdout.close()


class Follower:
    """All committed records of a topic, as they arrive."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.messages: list[Message] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "follower",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partition_count)]
        )

    def take(self) -> list[Message]:
        for message in self._consumer.consume(1000, timeout=0.2):
            if message.error() is None:
                self.messages.append(message)
        return self.messages

    def close(self) -> None:
        self._consumer.close()


def wait_until(condition: object, what: object, apps: list[StreamsApp]) -> None:
    """`what` may be a function, which then describes the progress."""
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        failed = [line for app in apps for line in app.errors()]
        assert not failed, failed
        value = what() if callable(what) else what
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:.0f} s: {value}"
        time.sleep(0.1)
