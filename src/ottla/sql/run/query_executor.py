"""The query executor: what the engine needs from Spark, tables in memory, and producers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.client import Admin, Producer
from ottla.client.delivery import Setting
from ottla.queries.shared_directory import executor_problem
from ottla.queries.spark_provider import SparkProvider
from ottla.rows.errors import SqlCode, SqlError
from ottla.rows.formats.registry_format import registry_of
from ottla.rows.schema import Column
from ottla.rows.types import SqlType
from ottla.spark import session
from ottla.spark.java import StartError
from ottla.spark.tables import MaterializedTable, MaterializedTables
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.engine.descriptions import QueryDescription
from ottla.sql.engine.query_result import (
    COMPLETED,
    LIMIT_REACHED,
    ROWS_PER_TAKE,
    BatchedQueryResult,
    QueryResult,
    Row,
    new_query_id,
)
from ottla.sql.insert import Inserts, Record, row_of_json
from ottla.sql.ksql_config import AUTO_OFFSET_RESET, PUSH_V2, RANGE_SCANS, TABLE_SCANS, KsqlConfig
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.spark_pull import SparkPull, plan_spark_pull
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.run.unreadable_records import UnreadableRecords
from ottla.sql.syntax.statements import InsertValues, Print, Select
from ottla.sql.table_pull import TablePull, table_pull
from ottla.sql.topic_printer import TopicPrinter

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


class QueryExecutor:
    """Executes queries and inserts for an engine. `spark` gives an existing session, in tests for
    example; `spark_log` is a file for the output of Spark and its JVM."""

    def __init__(
        self,
        settings: KsqlConfig,
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
        self._tables = MaterializedTables(
            settings.bootstrap_servers,
            settings.client,
            on_bad=self.unreadable.take,
            registry=self._registry,
        )
        self._producer: Producer[bytes, bytes] | None = None

    def warm_up(self, when_done: Callable[[], None]) -> None:
        """Start Spark in the background; call `when_done` when it runs or has failed."""
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
                remedy="See the server's log.",
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
        """The queries; waits for Spark."""
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
        """The state directory; its path has the cluster id, which the broker gives."""
        settings = self._settings
        with Admin(settings.bootstrap_servers, settings=settings.client) as admin:
            return settings.state_dir(admin.cluster().cluster_id)

    def trouble_of_state_dir(self) -> str:
        """Why a Spark cluster can't use the state directory; empty if it can."""
        return executor_problem(self._session(), self.state_dir)

    def queries_if_ready(self) -> Queries | None:
        """The queries, or None if Spark is not running yet."""
        return self.queries() if self._spark.state == "ready" else None

    def states(self) -> dict[str, QueryDescription]:
        """The states of the persistent queries on this server."""
        if self._queries is None:
            return {}
        return {
            id_: QueryDescription(
                state.state,
                state.cause,
                {
                    "restarts": state.restarts,
                    "rows": state.rows,
                    "lag": state.lag,
                    "rowsPerSecond": state.rows_per_second,
                    "batchMs": state.batch_ms,
                },
            )
            for id_, state in self._queries.states().items()
        }

    def unreadable_words(self) -> dict[str, str]:
        """By topic, a sentence about its unreadable records."""
        log_topic = self._settings.processing_log
        return {
            topic: f"{found.count:,} records of {topic} could not be deserialized and were skipped."
            f" The last: {found.last}. PRINT '{log_topic}' FROM BEGINNING; shows those of queries."
            for topic, found in self.unreadable.counts().items()
        }

    def push(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> QueryResult:
        plan = plan_query(select.query, catalog, properties)
        scalable = _is_scalable(plan, catalog, properties)
        return PushResult(self.queries().push(plan, SCALABLE if scalable else TRANSIENT))

    # Pull queries

    def pull(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> QueryResult:
        """Run a pull query: on a table in memory if possible, which takes milliseconds, else on
        Spark."""
        query = select.query
        if query.beyond is None and query.source is not None:
            source = catalog.find(
                query.source.name, line=query.source.line, column=query.source.column
            )
            simple = table_pull(query, source.layout) if source.is_table else None
            if simple is not None:
                _check_scan(simple, properties)
                rows = simple.rows(self._table(source))
                return _finished(simple.columns, rows)
        pull = plan_spark_pull(query, catalog)
        tables = {
            view.name: self._table(view).arrow() for view in pull.views.values() if view.is_table
        }
        answer = self.queries().pull(pull, tables)
        return _finished(answer.columns, answer.rows, _stream_message(pull, len(answer.rows)))

    def _table(self, source: DataSource) -> MaterializedTable:
        """A table in memory, read to the end of its topic, so that clients find the rows they
        wrote."""
        table = self._tables.table(source.topic, source.layout)
        if not table.ready(CATCH_UP_S):
            raise SqlError(
                f"The table {source.name} is still being restored"
                f" ({table.lag:,} records left). {table.cause}".rstrip(),
                remedy="Try again soon.",
                code=SqlCode.NOT_READY,
            )
        return table

    def print_topic(self, statement: Print) -> QueryResult:
        settings = self._settings
        printing = TopicPrinter(
            settings.bootstrap_servers, statement, settings.client, registry=self._registry
        )
        return PrintResult(printing)

    def forget(self, catalog: Catalog, name: str) -> None:
        """Forget the rows of a dropped source."""
        source = catalog.sources.get(name)
        if source is not None and source.is_table:
            self._tables.drop(source.topic)

    # Inserts

    def insert_values(self, statement: InsertValues, source: DataSource) -> None:
        self._send(source, Inserts(source, self._registry).of_statement(statement))

    def insert_row(self, source: DataSource, row: Mapping[str, Any]) -> None:
        """Insert a JSON row: names as in a statement, values as in ksqlDB's REST API."""
        values = row_of_json(source, row)
        self._send(source, Inserts(source, self._registry).of_row(values))

    def _send(self, source: DataSource, record: Record) -> None:
        """Produce a record; returns when it is acknowledged."""
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


def _is_scalable(plan: QueryPlan, catalog: Catalog, properties: Mapping[str, str]) -> bool:
    """True for ksqlDB's scalable push queries: stateless, on new rows of a persistent query. Here
    they run like others, but clients may check the prefix of the id."""
    stateless = all(stage.stateless for stage in plan.stages) and len(plan.sources) == 1
    if properties.get(PUSH_V2, "").lower() != "true" or not stateless:
        return False
    latest = properties.get(AUTO_OFFSET_RESET, "latest").lower() == "latest"
    return latest and bool(catalog.writers(plan.sources[0]))


def _check_scan(pull: TablePull, properties: Mapping[str, str]) -> None:
    """SqlError if the pull query needs a table scan or range scan that is disabled."""
    off = [
        name for name in (TABLE_SCANS, RANGE_SCANS) if properties.get(name, "").lower() == "false"
    ]
    ranges = pull.is_range_scan and RANGE_SCANS not in off
    if pull.keys is None and not ranges and TABLE_SCANS in off:
        raise SqlError(
            f"Query requires table scan to be enabled: {TABLE_SCANS} is false.",
            remedy=f"Add the key to the WHERE clause, or SET '{TABLE_SCANS}'='true';",
        )


def _finished(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], message: str = ""
) -> BatchedQueryResult:
    return BatchedQueryResult(columns, (Row(row) for row in rows), message=message)


def _stream_message(pull: SparkPull, count: int) -> str:
    """Why a pull query has ended, as in ksqlDB, which has a message for streams only."""
    if not pull.columns or any(view.is_table for view in pull.views.values()):
        return ""
    return LIMIT_REACHED if pull.limit is not None and count >= pull.limit else COMPLETED


class PrintResult:
    """The lines of PRINT; a lock guards its consumer."""

    is_push = True
    message = ""

    def __init__(self, printing: TopicPrinter) -> None:
        self.query_id = new_query_id("print")
        self.names: list[str] = []
        self.types: list[SqlType] = []
        self.key_names: frozenset[str] = frozenset()
        self._printing = printing
        self._lock = threading.Lock()

    def take(self, timeout_s: float) -> list[Row] | None:
        with self._lock:
            lines = self._printing.take(timeout_s)
        return None if lines is None else [Row([line]) for line in lines]

    def close(self) -> None:
        with self._lock:
            self._printing.close()


class PushResult:
    """The rows of a push query; a slow client slows down its own query only."""

    is_push = True

    def __init__(self, query: PushQuery) -> None:
        self._query = query
        self.query_id = query.id
        self.names = [column.name for column in query.columns]
        self.types: list[SqlType] = [column.type for column in query.columns]
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
                    remedy="See the server's log.",
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
