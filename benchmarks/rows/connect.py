"""Connect: a file and a table of PostgreSQL into topics, topics into a file and into Parquet.

There is one broker, Ottla. The columns are our worker on `local[2]` and Kafka's, each distributed
and alone in its group, told by REST; one task a connector, sources exactly once, values JSON with
their schema. The time is from the request that makes the connector to its last record, its start
included. The CPU time is that of all processes of the worker, its tasks' own among them; not of
broker or database.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import apache_kafka, connect_worker, debezium
from benchmarks.bench import Bench
from benchmarks.brokers import HOST, OTTLA, start_broker
from benchmarks.committed import CommittedCount
from benchmarks.connect_worker import Worker
from benchmarks.figures import Figure, rate
from benchmarks.marks import Mark
from benchmarks.rows.spark import python_of, with_archive
from benchmarks.settings import SMALL_BYTES, Settings
from ottla.client import Admin

if TYPE_CHECKING:
    from ottla.testing.postgres import PostgresServer

PART = 12
"""Of the records that a throughput row has."""
WARM_UP_PART = 4
"""Of those that are measured: they go the same ways before, through the same worker."""
FILES = 10
"""Of Parquet, which one copy writes."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What one pass over all connectors copies."""

    name: str
    count: int


def conditions(settings: Settings) -> str:
    count = settings.count(SMALL_BYTES) // PART
    return (
        f"`ottla connect worker` on local[2] beside Kafka's worker {apache_kafka.KAFKA_VERSION}, "
        "heap 2 GiB each, one at a time, both on an Ottla of their own; sources exactly once, JSON "
        f"with schemas; {count:,} records after {count // WARM_UP_PART:,} that are not measured; "
        f"from PostgreSQL: our JDBC source beside the snapshot of Debezium {debezium.VERSION}; "
        "no round is discarded; CPU is the worker's with its tasks, without broker and database"
    )


class ConnectCopies:
    title = "Connect"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        """No round is discarded: each starts a new worker and warms it up."""
        return 0, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name == OTTLA:
            with_archive(bench)
        count = bench.settings.count(SMALL_BYTES) // PART
        with ExitStack() as stack:
            place = ConnectSetup(bench, name, stack)
            place.copied(Amount("few", count // WARM_UP_PART))
            return place.copied(Amount("many", count))


class ConnectSetup:
    """A broker, a database and a worker, which end with the stack."""

    def __init__(self, bench: Bench, name: str, stack: ExitStack) -> None:
        from ottla.testing.postgres import PostgresServer

        self._name = name
        self._folder = bench.directory / f"connect-{Mark().value}"
        self._folder.mkdir()
        self._stack = stack
        self._broker = start_broker(OTTLA, self._folder / "broker", bench.commands)
        stack.callback(self._broker.remove)
        self._database = stack.enter_context(PostgresServer())
        command, more = worker_of(bench, name)
        self._worker = Worker(command, self._folder, self._broker.bootstrap, stack, **more)

    def copied(self, amount: Amount) -> list[Figure]:
        """One connector after the other, each alone."""
        source = self._folder / f"{amount.name}.txt"
        write_lines(source, amount.count)
        fill(self._database, amount.name, amount.count)
        figures = [self._file_to_topic(amount, source), self._topic_to_file(amount, source)]
        figures.append(self._database_to_topic(amount))
        if self._name == OTTLA:
            figures.append(self._topic_to_parquet(amount))
        return figures

    def _file_to_topic(self, amount: Amount, source: Path) -> Figure:
        config = {"connector.class": "FileStreamSource", "file": str(source)}
        topic = f"{amount.name}-lines"
        config["topic"] = topic
        return self._copy("file to topic", amount, config, self._coming(topic))

    def _topic_to_file(self, amount: Amount, source: Path) -> Figure:
        target = self._folder / f"{amount.name}-copy.txt"
        config = {"connector.class": "FileStreamSink", "file": str(target)}
        config["topics"] = f"{amount.name}-lines"
        line_bytes = source.stat().st_size // amount.count
        return self._copy("topic to file", amount, config, lambda: lines_in(target, line_bytes))

    def _database_to_topic(self, amount: Amount) -> Figure:
        made = jdbc_source if self._name == OTTLA else debezium_source
        topic, config = made(self._database, amount.name)
        return self._copy("PostgreSQL to topic", amount, config, self._coming(topic))

    def _topic_to_parquet(self, amount: Amount) -> Figure:
        files = self._folder / f"{amount.name}-files"
        config = {
            "connector.class": "StorageSink",
            "topics": jdbc_source(self._database, amount.name)[0],
            "store.url": str(files),
            "format.class": "parquet",
            "flush.size": str(amount.count // FILES),
        }
        return self._copy("topic to Parquet", amount, config, lambda: rows_in(files))

    def _copy(
        self, what: str, amount: Amount, config: dict[str, str], done: Callable[[], int]
    ) -> Figure:
        name = f"{amount.name}-{what.replace(' ', '-')}"
        cpu_s = self._worker.cpu_s
        seconds = self._worker.copy(name, config, amount.count, done)
        cpu_us = (self._worker.cpu_s - cpu_s) * 1e6 / amount.count
        self._worker.delete(name)
        return rate(f"Connect, {what}", "records/s", amount.count / seconds, cpu_us=cpu_us)

    def _coming(self, topic: str) -> Callable[[], int]:
        """Counts the committed records of a new topic as a consumer reads them."""
        with Admin(self._broker.bootstrap) as admin:
            admin.topics.create(topic, partitions=1)
        reader = CommittedCount(self._broker.bootstrap, topic)
        self._stack.callback(reader.close)
        return reader.counting()


def worker_of(bench: Bench, name: str) -> tuple[Callable[[Path], list[str]], dict[str, str]]:
    """The command that starts a worker on a properties file, and its own properties."""
    if name != OTTLA:
        return connect_worker.kafka_command, {"plugin.path": str(debezium.ensure())}
    spark = {"ottla.connect.spark.master": "local[2]", "ottla.connect.spark.heap": "2g"}
    return functools.partial(connect_worker.ottla_command, python_of(bench)), spark


def jdbc_source(database: PostgresServer, table: str) -> tuple[str, dict[str, str]]:
    """The topic, and the config of Ottla's connector."""
    return f"jdbc-{table}", {
        "connector.class": "JdbcSource",
        "connection.url": database.url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": table,
        "topic.prefix": "jdbc-",
        "batch.max.rows": "2000",
        "poll.interval.ms": "100",
    }


def debezium_source(database: PostgresServer, table: str) -> tuple[str, dict[str, str]]:
    """Copies the present rows unchanged, then ends."""
    return f"debezium-{table}.public.{table}", {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": HOST,
        "database.port": str(database.port),
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": f"debezium-{table}",
        "table.include.list": f"public.{table}",
        "snapshot.mode": "initial_only",
        "transforms": "row",
        "transforms.row.type": "io.debezium.transforms.ExtractNewRecordState",
    }


def fill(database: PostgresServer, table: str, count: int) -> None:
    """The index has no UNIQUE, because Debezium would make keys of it and Ottla has none."""
    import psycopg

    with psycopg.connect(database.conninfo, autocommit=True) as line:
        line.execute(f"CREATE TABLE {table} (id bigint NOT NULL, name text, amount float8)")
        line.execute(
            f"INSERT INTO {table} SELECT n, 'name of ' || n, n / 7.0 FROM generate_series(1, %s) n",
            (count,),
        )
        line.execute(f"CREATE INDEX ON {table} (id)")
        line.execute(f"ANALYZE {table}")


def write_lines(path: Path, count: int) -> None:
    """Lines of 100 B, including the line end."""
    filler = "x" * (SMALL_BYTES - 12)
    with path.open("w") as file:
        file.writelines(f"{number:010d} {filler}\n" for number in range(count))


def lines_in(path: Path, line_bytes: int) -> int:
    return path.stat().st_size // line_bytes if path.exists() else 0


def rows_in(folder: Path) -> int:
    """Files appear once they are complete."""
    import pyarrow.parquet

    files = folder.rglob("*.parquet")
    return sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)
