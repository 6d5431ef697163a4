"""SQL: what ten persistent queries on one topic cost beside one, in one warm `ottla sql-server`.

The queries run, and then the topic is filled: the time until every result is there, and the CPU
time of the whole server meanwhile (its Python, its JVM, Spark's Python workers; not the broker).
After that a few records come each second: what the server takes of a core in such a steady state.
Ten counts are made in one request, where they share a Spark query, and one by one, where not.
"""

from __future__ import annotations

import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bench import Bench
from benchmarks.brokers import OTTLA, Broker, start_broker
from benchmarks.figures import Figure, cost
from benchmarks.marks import Mark
from benchmarks.processes import SpawnedServer, ToolError, cpu_seconds, spawn
from benchmarks.rows.spark import python_of
from benchmarks.settings import Settings
from benchmarks.topics import create_topic
from ottla.client import Consumer, Producer
from ottla.testing.ports import reserve_port

PARTITIONS = 2
MANY = 10
GROUPS = 100
TAKEN_OF = 100
"""A filter takes one row of so many."""
ROWS_PART = 20
"""Of the records that a throughput row has: every query computes on each of them."""
READY_S_MAX = 300.0
RESULT_S_MAX = 900.0
LOOK_S = 0.1
APART_S = 2.0
"""Between two statements that are made one by one: admission to a shared query waits less."""
STEADY_S = 20.0
STEADY_EVERY_S = 0.1


class Server:
    """`ottla sql-server` on its own broker."""

    def __init__(self, bench: Bench, name: str = "sql", mark: Mark | None = None) -> None:
        folder = bench.directory / name
        folder.mkdir()
        self.broker: Broker = start_broker(OTTLA, folder / "broker", bench.commands)
        bench.after_row.callback(self.broker.remove)
        self._numbers = itertools.count()
        with reserve_port() as reserved:
            port = reserved.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        command = [python_of(bench), "-m", "ottla.cli", "sql-server", "--port", str(port)]
        command += ["--bootstrap-server", self.servers, "--state-dir", str(folder / "state")]
        self.process: SpawnedServer = spawn(
            [*command, "--master", "local[2]"],
            log=folder / "log",
            env=mark.environment if mark else None,
        )
        bench.after_row.callback(self.process.stop)
        self._until(self._is_ready, READY_S_MAX)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    @property
    def cpu_s(self) -> float:
        return cpu_seconds(self.process.pid)

    def new_name(self, what: str) -> str:
        return f"{what}{next(self._numbers)}"

    def execute(self, text: str) -> Any:
        fields = {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}
        request = urllib.request.Request(f"{self._url}/ksql", json.dumps(fields).encode())
        try:
            with urllib.request.urlopen(request, timeout=READY_S_MAX) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ToolError(f"{text}\n{error.read().decode()[:1000]}") from None

    def wait_running(self) -> None:
        self._until(lambda: self._states() == {"RUNNING"}, READY_S_MAX)

    def wait_gone(self) -> None:
        self._until(lambda: not self._states(), READY_S_MAX)

    def _states(self) -> set[str]:
        (shown,) = self.execute("SHOW QUERIES;")
        return {query["state"] for query in shown["queries"]}

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/healthcheck", timeout=10) as answer:
                return bool(json.load(answer)["serverState"] == "READY")
        except OSError:
            return False

    def _until(self, true: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline or not self.process.alive():
                raise ToolError(f"the SQL server is not ready:\n{self.process.log_tail()}")
            time.sleep(LOOK_S)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of query: its statement for sink, source and number, and when a sink has it all."""

    name: str
    statement: str
    is_whole: Callable[[dict[bytes | None, Any], int, int], bool]


def _all_taken(rows: dict[bytes | None, Any], seen: int, count: int) -> bool:
    return seen >= count // TAKEN_OF


def _all_counted(rows: dict[bytes | None, Any], seen: int, count: int) -> bool:
    return sum(int(row["N"]) for row in rows.values()) >= count


FILTER = Kind(
    "filter",
    "CREATE STREAM {sink} AS SELECT id, v FROM {source} WHERE v % 100 = {n};",
    _all_taken,
)
COUNT = Kind(
    "count by key",
    "CREATE TABLE {sink} AS SELECT id, COUNT(*) AS n, SUM(v + {n}) AS s FROM {source} GROUP BY id;",
    _all_counted,
)


@dataclass(slots=True)
class Sink:
    rows: dict[bytes | None, Any] = field(default_factory=dict)
    seen: int = 0


class SqlQueries:
    """One broker and one server for all rounds; each measurement uses new topics."""

    title = "SQL queries"

    def __init__(self) -> None:
        self._server: Server | None = None

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name != OTTLA:
            return []
        count = max(bench.settings.small_count // ROWS_PART, TAKEN_OF)
        count -= count % TAKEN_OF
        if self._server is None:
            bench.after_row.callback(self._leave)
            self._server = Server(bench)
            for kind in (FILTER, COUNT):
                measured(self._server, kind, 1, count)
        figures: list[Figure] = []
        for kind in (FILTER, COUNT):
            for queries, apart in ((1, False), (MANY, False), (MANY, True)):
                if apart and kind is FILTER:
                    continue  # filters share a query whenever they are created
                found = measured(self._server, kind, queries, count, apart=apart)
                how = " made one by one" if apart else ""
                title = f"SQL, {queries} x {kind.name}{how}"
                figures += [
                    cost(f"{title}, {count:,} rows", "s", found.seconds),
                    cost(f"{title}, {count:,} rows, CPU of the server", "s", found.cpu_s),
                    cost(f"{title}, 10 rows a second", "% of a core", 100 * found.steady),
                ]
        return figures

    def _leave(self) -> None:
        self._server = None


@dataclass(frozen=True, slots=True)
class Found:
    seconds: float
    """From the first record until all results are there."""
    cpu_s: float
    """The server's, in that time."""
    steady: float
    """Cores that the server takes while a few records come each second."""


def measured(server: Server, kind: Kind, queries: int, count: int, *, apart: bool = False) -> Found:
    source = server.new_name("source")
    topic = create_topic(server.broker, source, partitions=PARTITIONS)
    server.execute(
        f"CREATE STREAM {source} (id STRING KEY, v INT)"
        f" WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON');"
    )
    sinks = [server.new_name("SINK") for _ in range(queries)]
    statements = [
        kind.statement.format(sink=sink, source=source, n=n) for n, sink in enumerate(sinks)
    ]
    for statement in statements if apart else ["".join(statements)]:
        server.execute(statement)
        time.sleep(APART_S if apart else 0.0)
    server.wait_running()
    start, cpu_s = time.perf_counter(), server.cpu_s
    fill(server.servers, topic, count)
    wait_for(server, kind, sinks, count)
    seconds, cpu_s = time.perf_counter() - start, server.cpu_s - cpu_s
    found = Found(seconds, cpu_s, steady(server, topic))
    noun = "STREAM" if kind is FILTER else "TABLE"
    server.execute("".join(f"DROP {noun} {sink} DELETE TOPIC;" for sink in sinks))
    server.execute(f"DROP STREAM {source} DELETE TOPIC;")
    server.wait_gone()
    return found


def steady(server: Server, topic: str) -> float:
    start, cpu_s = time.perf_counter(), server.cpu_s
    with Producer(server.servers) as producer:
        for n in range(int(STEADY_S / STEADY_EVERY_S)):
            producer.send(topic, b'{"V":%d}' % n, key=b"key-%d" % (n % GROUPS))
            producer.flush()
            time.sleep(STEADY_EVERY_S)
    return (server.cpu_s - cpu_s) / (time.perf_counter() - start)


def fill(servers: str, topic: str, count: int) -> None:
    with Producer(servers) as producer:
        for n in range(count):
            producer.send(topic, b'{"V":%d}' % n, key=b"key-%d" % (n % GROUPS))


def wait_for(server: Server, kind: Kind, sinks: list[str], count: int) -> None:
    found = {name: Sink() for name in sinks}
    deadline = time.monotonic() + RESULT_S_MAX
    settings = {"isolation.level": "read_committed"}
    with Consumer(
        server.servers, sinks, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        while not all(kind.is_whole(item.rows, item.seen, count) for item in found.values()):
            if time.monotonic() > deadline:
                raise ToolError(f"not all results are there:\n{server.process.log_tail()}")
            record = consumer.poll(1.0)
            if record is not None:
                sink = found[record.topic]
                sink.seen += 1
                if kind is COUNT:
                    sink.rows[record.key] = json.loads(record.value or b"{}")
