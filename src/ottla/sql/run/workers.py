"""What an engine has others do: Spark and its queries, tables in memory, records written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.client import Admin, Producer
from ottla.client.delivery import Setting
from ottla.queries.sharing import trouble_of_workers
from ottla.queries.spark_provider import SparkProvider
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.formats.registered import registry_of
from ottla.rows.schema import Column
from ottla.rows.types import SqlType
from ottla.spark import session
from ottla.spark.java import StartError
from ottla.spark.tables import Table, Tables
from ottla.sql.catalog import Catalog, Source
from ottla.sql.engine.answer import (
    COMPLETED,
    LIMIT_REACHED,
    ROWS_PER_TAKE,
    Answer,
    Finished,
    Row,
    new_query_id,
)
from ottla.sql.engine.answers import QueryFacts
from ottla.sql.insert import Inserts, Record, row_of_json
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.pull import Pull, plan_pull
from ottla.sql.plan.stages import Plan
from ottla.sql.printing import Printing
from ottla.sql.pull import SimplePull, simple_pull
from ottla.sql.run.unreadable_records import UnreadableRecords
from ottla.sql.settings import (
    AUTO_OFFSET_RESET,
    PUSH_V2,
    RANGE_SCANS,
    TABLE_SCANS,
    Settings,
)
from ottla.sql.syntax.statements import InsertValues, Print, Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.sql.run.push import PushQuery
    from ottla.sql.run.queries import Queries

log = logging.getLogger("ottla.sql")

TRANSIENT: Final = "transient"
SCALABLE: Final = "SCALABLE_PUSH_QUERY"
SOON_S: Final = 0.001
CATCH_UP_S: Final = 10.0
SEND_S_MAX: Final = 30.0


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
        self._spark = SparkProvider(spark or self._start_spark)
        self._lock = threading.Lock()
        self._queries: Queries | None = None
        self._registry = registry_of(settings.registry)
        self.unreadable = UnreadableRecords()
        self._tables = Tables(
            settings.bootstrap_servers,
            settings.client,
            on_bad=self.unreadable.take,
            registry=self._registry,
        )
        self._producer: Producer[bytes, bytes] | None = None

    def warm_up(self, when_done: Callable[[], None]) -> None:
        """Start Spark in the background; tell when it is there, or has failed to be."""
        self._spark.begin(when_done)

    def give_up_waiting(self) -> None:
        self._spark.give_up()

    def _session(self) -> SparkSession:
        self._spark.begin()
        try:
            return self._spark()
        except StartError as error:
            raise SqlError(
                str(error),
                remedy="The server's log has more about it.",
                code=SqlCode.SERVER_ERROR,
            ) from error

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
        self._session()
        with self._lock:
            if self._queries is None:
                from ottla.sql.run.queries import Queries

                settings = self._settings
                servers, log_topic = settings.bootstrap_servers, settings.processing_log
                self.unreadable.follow(servers, settings.client, log_topic)
                self._queries = Queries(
                    self._session,
                    settings.bootstrap_servers,
                    self.state_dir,
                    settings.client,
                    service_id=settings.service_id,
                    registry=settings.registry,
                    processing_log=log_topic,
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
        return trouble_of_workers(self._session(), self.state_dir)

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

    def unreadable_words(self) -> dict[str, str]:
        """By topic: how many of its records could not be read, and which topic names them."""
        log_topic = self._settings.processing_log
        return {
            topic: f"{found.count:,} records of {topic} could not be read and are left out. The"
            f" last: {found.last}. PRINT '{log_topic}' FROM BEGINNING; shows those of queries."
            for topic, found in self.unreadable.counts().items()
        }

    def push(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> Answer:
        plan = plan_query(select.query, catalog, properties)
        scalable = _is_scalable(plan, catalog, properties)
        return Pushed(self.queries().push(plan, SCALABLE if scalable else TRANSIENT))

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
        return _finished(answer.columns, answer.rows, _stream_message(pull, len(answer.rows)))

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
        values = row_of_json(source, row)
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
        self.unreadable.close()


def _is_scalable(plan: Plan, catalog: Catalog, properties: Mapping[str, str]) -> bool:
    """What ksqlDB calls a scalable push query: new rows of a persistent query, without state. Here
    it is run as any other; clients may look at its id."""
    stateless = all(stage.stateless for stage in plan.stages) and len(plan.sources) == 1
    if properties.get(PUSH_V2, "").lower() != "true" or not stateless:
        return False
    latest = properties.get(AUTO_OFFSET_RESET, "latest").lower() == "latest"
    return latest and bool(catalog.writers(plan.sources[0]))


def _check_scan(pull: SimplePull, properties: Mapping[str, str]) -> None:
    """A range scan is no table scan, unless range scans are disabled as well."""
    off = [
        each for each in (TABLE_SCANS, RANGE_SCANS) if properties.get(each, "").lower() == "false"
    ]
    ranges = pull.is_range_scan and RANGE_SCANS not in off
    if pull.keys is None and not ranges and TABLE_SCANS in off:
        raise SqlError(
            f"Query requires table scan to be enabled: {TABLE_SCANS} is false.",
            remedy=f"Give the key in the WHERE clause, or SET '{TABLE_SCANS}'='true';",
        )


def _finished(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], message: str = ""
) -> Finished:
    return Finished(columns, (Row(each) for each in rows), message=message)


def _stream_message(pull: Pull, count: int) -> str:
    """Why a pull query of a stream has ended. Of tables ksqlDB says nothing."""
    if not pull.columns or any(each.is_table for each in pull.views.values()):
        return ""
    return LIMIT_REACHED if pull.limit is not None and count >= pull.limit else COMPLETED


class Printed:
    """The lines of PRINT. Its consumer is used by one thread at a time."""

    is_push = True
    message = ""

    def __init__(self, printing: Printing) -> None:
        self.query_id = new_query_id("print")
        self.names: list[str] = []
        self.types: list[SqlType] = []
        self.key_names: frozenset[str] = frozenset()
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
        self.key_names: frozenset[str] = frozenset()
        self._limit = query.plan.limit
        self._count = 0

    @property
    def message(self) -> str:
        reached = self._limit is not None and self._count >= self._limit
        return LIMIT_REACHED if reached else COMPLETED

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
