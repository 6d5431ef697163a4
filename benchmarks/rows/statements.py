"""SQL statements in `ottla sql-server` beside Kafka Streams, which does what ksqlDB would do.

There is one broker, Ottla, new for each statement. The peer is the topology that ksqlDB plans for
the same statement (java/StreamsJob.java), with the same formats, exactly once. The server runs
before its statement comes, as ksqlDB's would. First result: from the statement, or from the start
of the peer's process, to the result of an order that lay there. Speed: the topic is filled, and the
time is taken until every result is there. Latency: one order at a time, until its result is read.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import Message

from benchmarks import apache_kafka, kafka_streams
from benchmarks.bench import Bench
from benchmarks.brokers import OTTLA, Broker, start_broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.marks import Mark
from benchmarks.orders import KEYS, Orders
from benchmarks.processes import SpawnedServer, ToolError, spawn
from benchmarks.rows.spark import with_archive
from benchmarks.rows.sql import Server
from benchmarks.rows.streams import (
    LATENCIES,
    ORDERS_PART,
    REST_S,
    WARM_UP_PART,
    classes_of,
    timed,
)
from benchmarks.settings import Settings

LARGE_TABLE = 2_000_000
ORDERS = """CREATE STREAM orders (id STRING KEY, v INT, item STRING)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"""
CUSTOMERS = """CREATE TABLE customers (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');"""
PAYMENTS = """CREATE STREAM payments (id STRING KEY, paid INT)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');"""
RESULTS = "WITH (KAFKA_TOPIC='results', PARTITIONS=2)"
TABLE_JOIN = f"""{CUSTOMERS}
  CREATE STREAM results {RESULTS} AS SELECT o.id AS id, o.v AS v, c.name AS name
  FROM orders o JOIN customers c ON o.id = c.id;"""


@dataclass(frozen=True, slots=True)
class Statement:
    """`job` is the peer's; `counts`: results are counts of keys, in a column N."""

    title: str
    job: str
    text: str
    counts: bool = False
    customers: int = KEYS
    payments: bool = False


STATEMENTS = (
    Statement(
        "filter and projection",
        "sql filter",
        f"""CREATE STREAM results {RESULTS} AS SELECT id, v + 1 AS v, item
        FROM orders WHERE v >= 0;""",
    ),
    Statement(
        "count by key",
        "sql count",
        f"CREATE TABLE results {RESULTS} AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id;",
        counts=True,
    ),
    Statement(
        "windowed count",
        "sql windowed count",
        f"""CREATE TABLE results {RESULTS} AS SELECT id, COUNT(*) AS n
        FROM orders WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id;""",
        counts=True,
    ),
    Statement("stream-table join, 1,000 keys", "sql table join", TABLE_JOIN),
    Statement(
        "stream-table join, 2,000,000 keys", "sql table join", TABLE_JOIN, customers=LARGE_TABLE
    ),
    Statement(
        "stream-stream join",
        "sql stream join",
        f"""{PAYMENTS}
        CREATE STREAM results {RESULTS} AS SELECT o.id AS id, o.v AS v, p.paid AS paid
        FROM orders o JOIN payments p WITHIN 1 MINUTE ON o.id = p.id;""",
        payments=True,
    ),
)


def conditions(settings: Settings) -> str:
    count = settings.small_count // ORDERS_PART
    return (
        f"`ottla sql-server` on local[{kafka_streams.THREADS}] beside Kafka Streams "
        f"{apache_kafka.KAFKA_VERSION} with ksqlDB's topology and {kafka_streams.THREADS} threads, "
        f"one at a time, both on an Ottla of their own; exactly once; JSON; {count:,} records "
        f"after {count // WARM_UP_PART:,} that are not measured; CPU without the broker"
    )


class SqlStatements:
    """In each round every statement gets its own broker and process, one at a time."""

    title = "SQL statements"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        """No round is discarded: each starts new processes and warms them up."""
        return 0, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name == OTTLA:
            with_archive(bench)
        else:
            kafka_streams.compiled(classes_of(bench))
        figures: list[Figure] = []
        for statement in STATEMENTS:
            with ExitStack() as stack:
                figures += MeasuredStatement(bench, name, statement, stack).figures()
        return figures


class MeasuredStatement:
    """One statement on its own broker, from its start on."""

    def __init__(self, bench: Bench, name: str, statement: Statement, stack: ExitStack) -> None:
        self._count = bench.settings.small_count // ORDERS_PART
        self._title = f"SQL, {statement.title}"
        self._mark = Mark()
        stack.callback(self._mark.end)
        folder = bench.directory / f"statement-{self._mark.value}"
        server = None
        if name == OTTLA:
            server = Server(bench, folder.name, self._mark)
            broker: Broker = server.broker
        else:
            folder.mkdir()
            broker = start_broker(OTTLA, folder / "broker", bench.commands)
        stack.callback(broker.remove)
        self._orders = Orders(
            broker.bootstrap,
            count_of=_column_n if statement.counts else None,
            customers=statement.customers,
            payments=statement.payments,
        )
        stack.callback(self._orders.close)
        self._orders.send(1)
        start = time.perf_counter()
        if server is not None:
            self._process: SpawnedServer = server.process
            server.execute(f"{ORDERS}{statement.text}")
        else:
            words = (statement.job, broker.bootstrap, folder / "state")
            command = kafka_streams.command(classes_of(bench), *words)
            self._process = spawn(command, log=folder / "log", env=self._mark.environment)
        stack.callback(self._process.stop)
        self._wait(1)
        self._first_s = time.perf_counter() - start

    def figures(self) -> list[Figure]:
        warm_up = self._count // WARM_UP_PART
        self._through(warm_up)
        cpu_s = self._mark.cpu_s
        seconds = timed(lambda: self._through(self._count))
        cpu_us = (self._mark.cpu_s - cpu_s) * 1e6 / self._count
        latencies = []
        for _ in range(LATENCIES):
            latencies.append(timed(lambda: self._through(1)))
            time.sleep(random.uniform(*REST_S))
        return [
            rate(self._title, "records/s", self._count / seconds, cpu_us=cpu_us),
            cost(f"{self._title}, latency, median", "ms", statistics.median(latencies) * 1000),
            cost(f"{self._title}, first result", "s", self._first_s),
        ]

    def _through(self, count: int) -> None:
        self._orders.send(count)
        self._wait(count)

    def _wait(self, count: int) -> None:
        try:
            self._orders.wait(count, self._process.alive)
        except ToolError as error:
            raise ToolError(f"{self._title}: {error}\n{self._process.log_tail()}") from None


def _column_n(message: Message) -> int:
    row = json.loads(message.value() or b"{}")
    return int(row.get("N", 0))
