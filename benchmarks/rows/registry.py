"""The schema registry: from nothing to the first answer, a large topic loaded, look-ups.

The registry is Ottla's on either broker; the broker only keeps its topic.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.bench import Bench
from benchmarks.brokers import HOST, StartError, free_port, start_broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.processes import SpawnedServer, cpu_seconds, memory, spawn
from benchmarks.settings import Settings
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.topic_records import schema_record

MB: Final = 1_000_000
TOPIC: Final = "_schemas"
SUBJECTS: Final = 10_000
VERSIONS: Final = 10
LOOK_UPS: Final = 3_000
KNOWN_SCHEMAS: Final = 100  # as many schemas as a client looks up repeatedly
START_S_MAX: Final = 120.0
LOOK_EVERY_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class RegistryLoad:
    title: str = f"schema registry, {SUBJECTS:,} subjects of {VERSIONS} versions"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return 0, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        broker = start_broker(name, bench.directory / f"registry-{name}", bench.commands)
        try:
            log = bench.directory / f"registry-{name}.log"
            empty = StartedRegistry(broker.bootstrap, log)
            empty.server.stop()
            fill(broker.bootstrap)
            loaded = StartedRegistry(broker.bootstrap, log)
            try:
                found = loaded.figures()
            finally:
                loaded.server.stop()
        finally:
            broker.remove()
        return [cost("start, empty", "s", empty.start_s), *found]


class StartedRegistry:
    """Answers, when the constructor is over."""

    def __init__(self, bootstrap: str, log: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-P", "-m", "ottla.cli", "registry", "-b", bootstrap]
        began = time.monotonic()
        self.server: SpawnedServer = spawn([*command, "--port", str(self.port)], log=log)
        while not self._answers():
            if not self.server.alive() or time.monotonic() - began > START_S_MAX:
                self.server.stop()
                raise StartError(f"the registry has not started: {self.server.log_tail()}")
            time.sleep(LOOK_EVERY_S)
        self.start_s = time.monotonic() - began
        self.start_cpu_s = cpu_seconds(self.server.pid)

    def figures(self) -> list[Figure]:
        return [
            cost("start with the large topic", "s", self.start_s),
            cost("CPU spent on that start", "s", self.start_cpu_s),
            cost("memory (RSS)", "MB", memory(self.server.pid).rss_bytes / MB),
            rate("look-ups by id on a core", "1/s", self._rate(self._by_id)),
            rate("look-ups by a new text on a core", "1/s", self._rate(self._by_new_text)),
            rate("look-ups by a stored text on a core", "1/s", self._rate(self._by_stored_text)),
            rate("look-ups by a known text on a core", "1/s", self._rate(self._by_known_text)),
        ]

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=1.0)
        try:
            connection.request("GET", "/schemas/types")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _rate(self, ask: Callable[[http.client.HTTPConnection, int], None]) -> float:
        """By the registry's own CPU time: the clock on the wall would count the client's, too."""
        connection = http.client.HTTPConnection(HOST, self.port)
        before = cpu_seconds(self.server.pid)
        for number in range(LOOK_UPS):
            ask(connection, number)
            answer = connection.getresponse()
            assert answer.status == http.HTTPStatus.OK, answer.read()
            answer.read()
        connection.close()
        return LOOK_UPS / max(cpu_seconds(self.server.pid) - before, 0.01)

    @staticmethod
    def _by_id(connection: http.client.HTTPConnection, number: int) -> None:
        connection.request("GET", f"/schemas/ids/{number * 31 % (SUBJECTS * VERSIONS) + 1}")

    @staticmethod
    def _by_new_text(connection: http.client.HTTPConnection, number: int) -> None:
        """Written otherwise than it is stored: each is parsed before it can be found."""
        look_up(connection, number * 31 % SUBJECTS, number % VERSIONS + 1, indent=1)

    @staticmethod
    def _by_stored_text(connection: http.client.HTTPConnection, number: int) -> None:
        """Each for the first time."""
        look_up(connection, number * 31 % SUBJECTS, number % VERSIONS + 1)

    @staticmethod
    def _by_known_text(connection: http.client.HTTPConnection, number: int) -> None:
        look_up(connection, number % KNOWN_SCHEMAS, 1, indent=1)


def look_up(
    connection: http.client.HTTPConnection, subject: int, version: int, indent: int | None = None
) -> None:
    text = schema_text(subject, version)
    if indent is not None:
        text = json.dumps(json.loads(text), indent=indent)
    body = json.dumps({"schema": text})
    connection.request("POST", f"/subjects/{subject_name(subject)}", body)


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for subject in range(SUBJECTS):
        for version in range(1, VERSIONS + 1):
            id = subject * VERSIONS + version
            text = schema_text(subject, version)
            key, value = schema_record(StoredSchema(subject_name(subject), version, id, text))
            producer.produce(TOPIC, key=key, value=value)
        producer.poll(0)
    assert producer.flush(START_S_MAX) == 0


def subject_name(number: int) -> str:
    return f"topic-{number}-value"


def schema_text(subject: int, version: int) -> str:
    """About 400 bytes: a record that grows by a field with each version."""
    fields: list[dict[str, object]] = [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    fields += [
        {"name": f"added_{number}", "type": "int", "default": 0} for number in range(version)
    ]
    record = {"type": "record", "name": f"Record{subject}", "namespace": "n", "fields": fields}
    return json.dumps(record, separators=(",", ":"))
