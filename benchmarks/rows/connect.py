"""Connect: a table of PostgreSQL into a topic, and a topic into Parquet files, exactly once.

One warm worker on `local[2]`, one task each; values are JSON with their schema. The time is from
the start of the connector to the last record, the start of its query included. The CPU time is the
worker's: its Python, its JVM, Spark's workers; not the task's own process, nor broker or database.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench import Bench
from benchmarks.brokers import OTTLA, Broker, start_broker
from benchmarks.figures import Figure, rate
from benchmarks.processes import ToolError, cpu_seconds, started_tool
from benchmarks.rows.spark import python_of
from benchmarks.settings import SMALL_BYTES, Settings
from ottla.client import Admin, Consumer

if TYPE_CHECKING:
    from ottla.testing.postgres import PostgresServer

PART = 20
"""Of the records that a throughput row has."""
WARM_UP_RUNS = 1
RESULT_S_MAX = 900.0
LOOK_S = 0.05


class ConnectCopies:
    title = "Connect"

    def __init__(self) -> None:
        self._place: Place | None = None

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name != OTTLA:
            return []
        if self._place is None:
            self._place = Place(bench, bench.settings.count(SMALL_BYTES) // PART)
            bench.after_row.callback(self._leave)
            for _ in range(WARM_UP_RUNS):
                self._place.measured()
        return self._place.measured()

    def _leave(self) -> None:
        self._place = None


class Place:
    """A broker, a database with a table, and a worker."""

    def __init__(self, bench: Bench, count: int) -> None:
        from ottla.testing.postgres import PostgresServer

        self._count = count
        self._numbers = itertools.count()
        self._folder = Path(tempfile.mkdtemp(prefix="connect-", dir=bench.directory))
        self._broker: Broker = start_broker(OTTLA, self._folder / "broker", bench.commands)
        bench.after_row.callback(self._broker.remove)
        self._database = bench.after_row.enter_context(PostgresServer())
        fill(self._database, count)
        command = [python_of(bench), "-m", "benchmarks.connect_load"]
        command += ["--port", str(self._broker.port)]
        self._worker = bench.after_row.enter_context(started_tool(command, stdin=subprocess.PIPE))
        self._answer()

    @property
    def _servers(self) -> str:
        return f"127.0.0.1:{self._broker.port}"

    def measured(self) -> list[Figure]:
        number = next(self._numbers)
        topic = f"t{number}-numbers"
        with Admin(self._servers) as admin:
            admin.topics.create(topic, partitions=1)
        source = {
            "connector.class": "JdbcSource",
            "connection.url": self._database.url,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "table.whitelist": "numbers",
            "topic.prefix": f"t{number}-",
            "batch.max.rows": "1000",
            "poll.interval.ms": "100",
        }
        files = self._folder / f"files-{number}"
        sink = {
            "connector.class": "StorageSink",
            "topics": topic,
            "store.url": str(files),
            "format.class": "parquet",
            "flush.size": str(self._count // 10),
        }
        first = self._timed("PostgreSQL to topic", f"source-{number}", source, self._read(topic))
        second = self._timed("topic to Parquet", f"sink-{number}", sink, lambda: rows_in(files))
        return [first, second]

    def _timed(self, what: str, name: str, config: dict[str, str], done: Any) -> Figure:
        cpu_s, start = cpu_seconds(self._worker.pid), time.perf_counter()
        self._do(name=name, config=config)
        while (count := done()) < self._count:
            if time.perf_counter() - start > RESULT_S_MAX:
                raise ToolError(f"{what}: {count} of {self._count} records after {RESULT_S_MAX} s")
            time.sleep(LOOK_S)
        seconds = time.perf_counter() - start
        cpu_us = (cpu_seconds(self._worker.pid) - cpu_s) * 1e6 / self._count
        self._do(stop=name)
        return rate(f"Connect, {what}", "records/s", self._count / seconds, cpu_us=cpu_us)

    def _read(self, topic: str) -> Any:
        """How many committed records the topic has, as a reader finds them."""
        settings = {"isolation.level": "read_committed"}
        consumer: Consumer[bytes, bytes] = Consumer(
            self._servers,
            topic,
            auto_offset_reset="earliest",
            settings=settings,
        )
        found = 0

        def count() -> int:
            nonlocal found
            found += len(consumer.take(10_000, 0.1))
            if found >= self._count:
                consumer.close()
            return found

        return count

    def _do(self, **wish: Any) -> None:
        assert self._worker.stdin is not None
        self._worker.stdin.write(json.dumps(wish) + "\n")
        self._worker.stdin.flush()
        self._answer()

    def _answer(self) -> None:
        assert self._worker.stdout is not None
        lines = []
        for line in self._worker.stdout:
            if line.startswith("{"):
                return
            lines.append(line)
        raise ToolError("the worker ended:\n" + "".join(lines)[-2000:])


def fill(database: PostgresServer, count: int) -> None:
    import psycopg

    with psycopg.connect(database.conninfo, autocommit=True) as line:
        line.execute("CREATE TABLE numbers (id bigint PRIMARY KEY, name text, amount float8)")
        line.execute(
            "INSERT INTO numbers SELECT n, 'name of ' || n, n / 7.0 FROM generate_series(1, %s) n",
            (count,),
        )


def rows_in(folder: Path) -> int:
    """Files appear when they are whole."""
    import pyarrow.parquet

    files = folder.rglob("*.parquet")
    return sum(pyarrow.parquet.read_metadata(each).num_rows for each in files)
