"""What an engine has others do: Spark and its queries, tables in memory, records written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.client import Admin, Producer
from ottla.client.delivery import Setting
from ottla.spark import session
from ottla.spark.formats.registered import registry_of
from ottla.spark.rows import tell_bad
from ottla.spark.running.sharing import trouble_of_workers
from ottla.spark.sql.catalog import Catalog, Source
from ottla.spark.sql.engine.answer import (
    LIMIT_REACHED,
    ROWS_PER_TAKE,
    Answer,
    Finished,
    Row,
    new_query_id,
)
from ottla.spark.sql.engine.answers import QueryFacts
from ottla.spark.sql.errors import SqlCode, SqlError
from ottla.spark.sql.expressions.constants import converted
from ottla.spark.sql.insert import Inserts, Record
from ottla.spark.sql.plan.planner import plan_query
from ottla.spark.sql.plan.pull import plan_pull
from ottla.spark.sql.printing import Printing
from ottla.spark.sql.pull import SimplePull, simple_pull
from ottla.spark.sql.schema import PSEUDO_COLUMNS, Column
from ottla.spark.sql.settings import RANGE_SCANS, TABLE_SCANS, Settings
from ottla.spark.sql.syntax.statements import InsertValues, Print, Select
from ottla.spark.sql.types import SqlType
from ottla.spark.tables import Table, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.sql.run.push import PushQuery
    from ottla.spark.sql.run.queries import Queries

log = logging.getLogger("ottla.sql")

SOON_S: Final = 0.001
CATCH_UP_S: Final = 10.0
SEND_S_MAX: Final = 30.0


class SparkDoor:
    """Spark, started once and in the background; whoever needs it waits."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._begun = False
        self._session: SparkSession | None = None
        self._when_done: Callable[[], None] = lambda: None
        self.trouble = ""

    @property
    def state(self) -> str:
        if not self._done.is_set():
            return "starting" if self._begun else "not started"
        return "failed" if self.trouble else "ready"

    def begin(self, when_done: Callable[[], None] | None = None) -> None:
        with self._lock:
            self._when_done = when_done or self._when_done
            if self._begun:
                return
            self._begun = True
        threading.Thread(target=self._run, name="ottla-sql-spark", daemon=True).start()

    def get(self) -> SparkSession:
        """The session; one whose JVM has died is replaced by a new one."""
        self.begin()
        self._done.wait()
        with self._lock:
            if self._session is not None and not session.lives(self._session):
                log.error("Spark is gone; it is started again")
                self._session = self._start()
        if self._session is None:
            raise SqlError(
                f"Spark did not start: {self.trouble}",
                remedy="The server's log has more about it.",
                code=SqlCode.SERVER_ERROR,
            )
        return self._session

    def wait(self) -> str:
        """What kept it from starting, or nothing."""
        self.begin()
        self._done.wait()
        return self.trouble

    def give_up(self) -> None:
        """Whoever waits need not: the server is being stopped."""
        if not self._done.is_set():
            self.trouble = "the server was stopped first"
            self._done.set()

    def _run(self) -> None:
        try:
            self._session = self._start()
        except Exception as error:  # no Java, no memory, no master: told wherever Spark is asked of
            self.trouble = str(error) or type(error).__name__
            log.exception("Spark did not start")
        finally:
            self._done.set()
            self._when_done()


class Workers:
    """One for each engine. `spark` is given where there is a session already, as in a test;
    `spark_log` is a file for what Spark and its Java have to say, instead of the terminal."""

    def __init__(
        self,
        settings: Settings,
        spark: Callable[[], SparkSession] | None = None,
        *,
        spark_log: Path | None = None,
    ) -> None:
        self._settings = settings
        self._spark_log = spark_log
        self._spark = SparkDoor(spark or self._start_spark)
        self._lock = threading.Lock()
        self._queries: Queries | None = None
        self._registry = registry_of(settings.registry)
        self._tables = Tables(
            settings.bootstrap_servers, settings.client, on_bad=tell_bad, registry=self._registry
        )
        self._producer: Producer[bytes, bytes] | None = None

    def warm_up(self, when_done: Callable[[], None]) -> None:
        """Start Spark in the background; tell when it is there, or has failed to be."""
        self._spark.begin(when_done)

    def give_up_waiting(self) -> None:
        self._spark.give_up()

    def spark_state(self) -> str:
        return self._spark.state

    def wait_for_spark(self) -> str:
        return self._spark.wait()

    def _start_spark(self) -> SparkSession:
        settings = self._settings
        return session.start(
            master=settings.get("ottla.sql.spark.master"),
            remote=settings.get("ottla.sql.spark.remote") or None,
            app_name=f"ottla-sql-{settings.service_id}",
            heap=settings.get("ottla.sql.spark.heap"),
            settings={
                name: value
                for name, value in settings.properties.items()
                if name.startswith("spark.")
            },
            log=self._spark_log,
        )

    # Queries that run

    def queries(self) -> Queries:
        """What starts and stops them; Spark is waited for."""
        self._spark.get()
        with self._lock:
            if self._queries is None:
                from ottla.spark.sql.run.queries import Queries

                settings = self._settings
                self._queries = Queries(
                    self._spark.get,
                    settings.bootstrap_servers,
                    self.state_dir,
                    settings.client,
                    service_id=settings.service_id,
                    registry=settings.registry,
                )
            return self._queries

    @cached_property
    def state_dir(self) -> Path:
        """Where queries keep how far they are; the broker is asked which cluster it is."""
        settings = self._settings
        with Admin(settings.bootstrap_servers, settings=settings.client) as admin:
            return settings.state_dir(admin.cluster().cluster_id)

    def trouble_of_state_dir(self) -> str:
        """Why a Spark cluster can't keep the state of queries there, if so."""
        return trouble_of_workers(self._spark.get(), self.state_dir)

    def queries_if_ready(self) -> Queries | None:
        """The same, for who would rather come again than wait."""
        return self.queries() if self._spark.state == "ready" else None

    def states(self) -> dict[str, QueryFacts]:
        """Of the persistent queries that were started here."""
        if self._queries is None:
            return {}
        return {
            id_: QueryFacts(
                each.state,
                each.cause,
                {
                    "restarts": each.restarts,
                    "rows": each.rows,
                    "lag": each.lag,
                    "rowsPerSecond": each.rows_per_second,
                    "batchMs": each.batch_ms,
                },
            )
            for id_, each in self._queries.states().items()
        }

    def push(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> Answer:
        plan = plan_query(select.query, catalog, properties)
        return Pushed(self.queries().push(plan))

    # Pull queries

    def pull(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> Answer:
        """From a table in memory, in milliseconds, where that can answer it; else by Spark."""
        query = select.query
        if query.beyond is None and query.source is not None:
            source = catalog.find(
                query.source.name, line=query.source.line, column=query.source.column
            )
            simple = simple_pull(query, source.layout) if source.is_table else None
            if simple is not None:
                _check_scan(simple, properties)
                rows = simple.rows(self._table(source))
                return _finished(simple.columns, rows)
        pull = plan_pull(query, catalog)
        tables = {
            each.name: self._table(each).arrow() for each in pull.views.values() if each.is_table
        }
        answer = self.queries().pull(pull, tables)
        return _finished(answer.columns, answer.rows)

    def _table(self, source: Source) -> Table:
        """With all that is in its topic now: who has written a row finds it."""
        table = self._tables.table(source.topic, source.layout)
        if not table.ready(CATCH_UP_S):
            raise SqlError(
                f"The table {source.name} is still being read"
                f" ({table.lag:,} records are left). {table.cause}".rstrip(),
                remedy="Try again soon.",
                code=SqlCode.NOT_READY,
            )
        return table

    def print_topic(self, statement: Print) -> Answer:
        settings = self._settings
        printing = Printing(
            settings.bootstrap_servers, statement, settings.client, registry=self._registry
        )
        return Printed(printing)

    def forget(self, catalog: Catalog, name: str) -> None:
        """A source was dropped: its rows are not kept any more."""
        source = catalog.sources.get(name)
        if source is not None and source.is_table:
            self._tables.drop(source.topic)

    # Rows written

    def insert_values(self, statement: InsertValues, source: Source) -> None:
        self._send(source, Inserts(source, self._registry).of_statement(statement))

    def insert_row(self, source: Source, row: Mapping[str, Any]) -> None:
        """Of JSON: names as in a statement, values as ksqlDB's REST writes them."""
        types = {**PSEUDO_COLUMNS, **{each.name: each.type for each in source.schema.columns}}
        values: dict[str, Any] = {}
        for written, value in row.items():
            name = _name(written)
            type_ = types.get(name)
            try:
                values[name] = value if type_ is None else converted(value, type_)
            except (ValueError, TypeError, ArithmeticError):
                raise SqlError(
                    f"Can't coerce a field of type {type(value).__name__} ({value})"
                    f" into type {type_}",
                    remedy=f"Column {name} is {type_}.",
                    code=SqlCode.BAD_REQUEST,
                ) from None
        self._send(source, Inserts(source, self._registry).of_row(values))

    def _send(self, source: Source, record: Record) -> None:
        """Returns when it is safe."""
        with self._lock:
            if self._producer is None:
                settings: dict[str, Setting] = {"linger.ms": 0, **self._settings.client}
                self._producer = Producer(self._settings.bootstrap_servers, settings=settings)
        key, value, timestamp_ms = record
        sending = self._producer.send(source.topic, value, key=key, timestamp_ms=timestamp_ms)
        sending.result(SEND_S_MAX)

    def close(self) -> None:
        with self._lock:
            if self._queries is not None:
                self._queries.close()
            if self._producer is not None:
                self._producer.close()
        self._tables.close()


def _check_scan(pull: SimplePull, properties: Mapping[str, str]) -> None:
    """A range of keys is no scan of the table, unless it is said to be one."""
    off = [
        each for each in (TABLE_SCANS, RANGE_SCANS) if properties.get(each, "").lower() == "false"
    ]
    ranges = pull.chosen is not None and RANGE_SCANS not in off
    if pull.keys is None and not ranges and TABLE_SCANS in off:
        raise SqlError(
            "WHERE clause missing key columns, and table scans are disabled:"
            f" {TABLE_SCANS} is false.",
            remedy=f"Give the key in the WHERE clause, or SET '{TABLE_SCANS}'='true';",
        )


def _finished(columns: Iterable[Column], rows: Iterable[Sequence[Any]]) -> Finished:
    known = list(columns)
    names = [each.name for each in known]
    return Finished(names, [each.type for each in known], (Row(each) for each in rows))


def _name(written: str) -> str:
    """As in a statement: in back quotes it counts as it is, else in upper case."""
    if len(written) > 1 and written[0] == written[-1] == "`":
        return written[1:-1]
    return written.upper()


class Printed:
    """The lines of PRINT. Its consumer is used by one thread at a time."""

    is_push = True
    message = ""

    def __init__(self, printing: Printing) -> None:
        self.query_id = new_query_id("print")
        self.names: list[str] = []
        self.types: list[SqlType] = []
        self._printing = printing
        self._lock = threading.Lock()

    def take(self, timeout_s: float) -> list[Row] | None:
        with self._lock:
            lines = self._printing.take(timeout_s)
        return None if lines is None else [Row([each]) for each in lines]

    def close(self) -> None:
        with self._lock:
            self._printing.close()


class Pushed:
    """The rows of a push query; a client that is slow slows the query down, and nobody else."""

    is_push = True

    def __init__(self, query: PushQuery) -> None:
        self._query = query
        self.query_id = query.id
        self.names = [each.name for each in query.columns]
        self.types: list[SqlType] = [each.type for each in query.columns]
        self._limit = query.plan.limit
        self._count = 0

    @property
    def message(self) -> str:
        reached = self._limit is not None and self._count >= self._limit
        return LIMIT_REACHED if reached else "Query Completed"

    def take(self, timeout_s: float) -> list[Row] | None:
        rows: list[Row] = []
        wait_s = timeout_s
        while len(rows) < ROWS_PER_TAKE:
            try:
                row = self._query.next(wait_s)
            except RuntimeError as error:
                raise SqlError(
                    f"The query has failed: {error}",
                    remedy="The server's log has more about it.",
                    code=SqlCode.SERVER_ERROR,
                ) from None
            if row is None:
                break
            rows.append(Row(row.values, row.deleted))
            wait_s = SOON_S
        self._count += len(rows)
        return None if not rows and self._query.closed else rows

    def close(self) -> None:
        self._query.close()
