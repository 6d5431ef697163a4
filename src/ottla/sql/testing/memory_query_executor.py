"""The query executor of the test driver: queries and inserts in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.clock import Clock
from ottla.engine.records import InputRow
from ottla.rows.errors import SqlError
from ottla.rows.schema import WINDOWEND, WINDOWSTART, Column
from ottla.rows.types import SqlType
from ottla.spark.table_store import ANY, Bounds
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.engine.descriptions import QueryDescription
from ottla.sql.engine.query_result import LIMIT_REACHED, Row, new_query_id
from ottla.sql.insert import Inserts, row_of_json
from ottla.sql.ksql_config import AUTO_OFFSET_RESET
from ottla.sql.lowering.push_rows import PushRowReader
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax.statements import Emit, InsertValues, Print, Select
from ottla.sql.table_pull import table_pull
from ottla.sql.testing.task_run import TaskRun

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver


class PushRows:
    """The rows of a query so far; `rows` has them as dicts."""

    def __init__(
        self,
        columns: Sequence[Column],
        found: Iterable[Row] = (),
        *,
        limit: int | None = None,
        is_push: bool = False,
    ) -> None:
        self.query_id = new_query_id("query")
        self.names = [column.name for column in columns]
        self.types: list[SqlType] = [column.type for column in columns]
        self.is_push = is_push
        self.closed = not is_push
        self._limit = limit
        self._all: list[Row] = list(found)
        self._taken = 0
        self._run: TaskRun | None = None
        self._plan: QueryPlan | None = None

    def follow(self, run: TaskRun, plan: QueryPlan) -> None:
        self._run, self._plan = run, plan

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows without tombstones."""
        return [
            dict(zip(self.names, row.values, strict=True)) for row in self._all if not row.deleted
        ]

    @property
    def changes(self) -> list[Row]:
        """All rows including tombstones, which have a key only."""
        return list(self._all)

    @property
    def message(self) -> str:
        reached = self._limit is not None and len(self._all) >= self._limit
        return LIMIT_REACHED if reached else "Query Completed" if self.is_push else ""

    def take(self, timeout_s: float) -> list[Row] | None:
        del timeout_s
        taken = self._all[self._taken :]
        self._taken = len(self._all)
        return taken or (None if self.closed else [])

    def close(self) -> None:
        self.closed = True

    def process(self, row: InputRow) -> None:
        if self._run is None or self.closed or row.topic not in self._run.topics:
            return
        assert self._plan is not None
        reader = PushRowReader(self._plan)
        for made in self._run.process(row):
            if self._limit is not None and len(self._all) >= self._limit:
                break
            if (found := reader.read(made.key, made.value)) is not None:
                self._all.append(Row(*found))
        if self._limit is not None and len(self._all) >= self._limit:
            self.close()


class MemoryQueryExecutor:
    """Replaces `ottla.sql.run.query_executor.QueryExecutor`."""

    def __init__(self, driver: SqlTestDriver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    def states(self) -> dict[str, QueryDescription]:
        return {
            id_: QueryDescription("RUNNING") for id_ in self._driver.engine.state.catalog.queries
        }

    def spark_state(self) -> str:
        return "not started"

    def unreadable_words(self) -> dict[str, str]:
        """Nothing: the driver has unreadable records in `failures`."""
        return {}

    def give_up_waiting(self) -> None:
        """Nothing to do: there is no Spark to wait for."""

    def close(self) -> None:
        """Nothing to close."""

    def forget(self, catalog: Catalog, name: str) -> None:
        """Nothing to do: rows are only in topics."""

    # Inserts

    def insert_values(self, statement: InsertValues, source: DataSource) -> None:
        self._send(source, self._inserts(source).of_statement(statement))

    def insert_row(self, source: DataSource, row: Mapping[str, Any]) -> None:
        self._send(source, self._inserts(source).of_row(row_of_json(source, row)))

    def _inserts(self, source: DataSource) -> Inserts:
        return Inserts(source, self._driver.registry, now_ms=self._clock.now_ms)

    def _send(self, source: DataSource, record: tuple[bytes | None, bytes | None, int]) -> None:
        self._driver.send(source.topic, *record)

    # Queries

    def push(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> PushRows:
        plan = plan_query(select.query, catalog, properties)
        rows = PushRows(plan.schema.columns, limit=plan.limit, is_push=True)
        self._fill(
            rows, plan, from_beginning=properties.get(AUTO_OFFSET_RESET, "").lower() == "earliest"
        )
        self._driver.push(rows)
        return rows

    def pull(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> PushRows:
        """The current rows of a table, or all rows of a stream so far."""
        query = select.query
        if query.beyond is not None or query.source is None:
            raise SqlError(
                "This pull query needs Spark, which the test driver does not have.",
                remedy="Only servers support subqueries, ORDER BY, GROUP BY and joins here.",
            )
        source = catalog.find(query.source.name)
        simple = table_pull(query, source.layout) if source.is_table else None
        if simple is not None:
            found = simple.rows(MemoryTable(source, self._driver.all_rows(source)))
            return PushRows(simple.columns, [Row(values) for values in found])
        plan = plan_query(replace(query, emit=Emit.CHANGES), catalog, properties)
        rows = PushRows(plan.schema.columns, limit=plan.limit, is_push=True)
        self._fill(rows, plan, from_beginning=True)
        return PushRows(plan.schema.columns, rows.changes)

    def _fill(self, rows: PushRows, plan: QueryPlan, *, from_beginning: bool) -> None:
        from ottla.sql.driver import as_input

        run = self._driver.run(rows.query_id, plan)
        rows.follow(run, plan)
        if from_beginning:
            for record in self._past(run):
                rows.process(as_input(record))

    def _past(self, run: TaskRun) -> list[Any]:
        found = [record for topic in run.topics for record in self._driver.records(topic)]
        return sorted(found, key=lambda record: record.timestamp)

    def print_topic(self, statement: Print) -> PushRows:
        raise SqlError(
            "The test driver does not support PRINT.", remedy="Use driver.records(topic)."
        )


class MemoryTable:
    """A table for pull queries, made of its current rows."""

    def __init__(self, source: DataSource, rows: list[dict[str, Any]]) -> None:
        self._names = [column.name for column in source.schema.key]
        self._windowed = source.is_windowed
        self._rows = rows

    def get(self, keys: Iterable[Sequence[Any]], bounds: Bounds = ANY) -> list[dict[str, Any]]:
        wanted = list(dict.fromkeys(map(repr, map(tuple, keys))))
        by_key: dict[str, list[dict[str, Any]]] = {}
        for row in self.scan(bounds):
            by_key.setdefault(repr(self._key(row)), []).append(row)
        return [row for key in wanted for row in by_key.get(key, ())]

    def range(self, wanted: Any, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        return [row for row in self.scan(bounds) if wanted(self._key(row))]

    def scan(self, bounds: Bounds = ANY) -> list[dict[str, Any]]:
        if not self._windowed:
            return self._rows
        return [row for row in self._rows if (row[WINDOWSTART], row[WINDOWEND]) in bounds]

    def _key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(map(row.__getitem__, self._names))
