"""What a server's workers do for its engine, done in memory: rows written, questions answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ottla.clock import Clock
from ottla.engine.records import Input
from ottla.rows.errors import SqlError
from ottla.rows.schema import WINDOWEND, WINDOWSTART, Column
from ottla.rows.types import SqlType
from ottla.spark.table_store import ANY, Bounds
from ottla.sql.catalog import Catalog, Source
from ottla.sql.engine.answer import LIMIT_REACHED, Row, new_query_id
from ottla.sql.engine.answers import QueryFacts
from ottla.sql.insert import Inserts, row_of_json
from ottla.sql.lowering.push_rows import PushRowReader
from ottla.sql.plan.planner import plan_query
from ottla.sql.plan.stages import Plan
from ottla.sql.pull import simple_pull
from ottla.sql.settings import AUTO_OFFSET_RESET
from ottla.sql.syntax.statements import Emit, InsertValues, Print, Select
from ottla.sql.testing.task_run import TaskRun

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver


class PushRows:
    """The rows of a query, as they have come so far. `rows` has them as dicts."""

    def __init__(
        self,
        columns: Sequence[Column],
        found: Iterable[Row] = (),
        *,
        limit: int | None = None,
        is_push: bool = False,
    ) -> None:
        self.query_id = new_query_id("query")
        self.names = [each.name for each in columns]
        self.types: list[SqlType] = [each.type for each in columns]
        self.is_push = is_push
        self.closed = not is_push
        self._limit = limit
        self._all: list[Row] = list(found)
        self._taken = 0
        self._run: TaskRun | None = None
        self._plan: Plan | None = None

    def follow(self, run: TaskRun, plan: Plan) -> None:
        self._run, self._plan = run, plan

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows that are deleted from a table are not among them."""
        return [
            dict(zip(self.names, each.values, strict=True))
            for each in self._all
            if not each.deleted
        ]

    @property
    def changes(self) -> list[Row]:
        """Deletions as well, which have their keys."""
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

    def process(self, row: Input) -> None:
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


class DriverAnswers:
    """In the place of `ottla.sql.run.workers.Workers`."""

    def __init__(self, driver: SqlTestDriver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    def states(self) -> dict[str, QueryFacts]:
        return {id_: QueryFacts("RUNNING") for id_ in self._driver.engine.state.catalog.queries}

    def spark_state(self) -> str:
        return "not started"

    def unreadable_words(self) -> dict[str, str]:
        """The driver keeps what can't be read in `failures`."""
        return {}

    def give_up_waiting(self) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """There is nothing to close."""

    def forget(self, catalog: Catalog, name: str) -> None:
        """Nothing is kept beside the topics."""

    # Rows written

    def insert_values(self, statement: InsertValues, source: Source) -> None:
        self._send(source, self._inserts(source).of_statement(statement))

    def insert_row(self, source: Source, row: Mapping[str, Any]) -> None:
        self._send(source, self._inserts(source).of_row(row_of_json(source, row)))

    def _inserts(self, source: Source) -> Inserts:
        return Inserts(source, self._driver.registry, now_ms=self._clock.now_ms)

    def _send(self, source: Source, record: tuple[bytes | None, bytes | None, int]) -> None:
        self._driver.send(source.topic, *record)

    # Questions

    def push(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> PushRows:
        plan = plan_query(select.query, catalog, properties)
        rows = PushRows(plan.schema.columns, limit=plan.limit, is_push=True)
        self._fill(
            rows, plan, from_beginning=properties.get(AUTO_OFFSET_RESET, "").lower() == "earliest"
        )
        self._driver.push(rows)
        return rows

    def pull(self, select: Select, catalog: Catalog, properties: Mapping[str, str]) -> PushRows:
        """Of a table, the rows that it has now; of a stream, those that it has so far."""
        query = select.query
        if query.beyond is not None or query.source is None:
            raise SqlError(
                "This pull query needs Spark, which is not here.",
                remedy="Subqueries, ORDER BY, GROUP BY and joins are answered by a server.",
            )
        source = catalog.find(query.source.name)
        simple = simple_pull(query, source.layout) if source.is_table else None
        if simple is not None:
            found = simple.rows(MemoryTable(source, self._driver.all_rows(source)))
            return PushRows(simple.columns, [Row(each) for each in found])
        plan = plan_query(replace(query, emit=Emit.CHANGES), catalog, properties)
        rows = PushRows(plan.schema.columns, limit=plan.limit, is_push=True)
        self._fill(rows, plan, from_beginning=True)
        return PushRows(plan.schema.columns, rows.changes)

    def _fill(self, rows: PushRows, plan: Plan, *, from_beginning: bool) -> None:
        from ottla.sql.driver import as_input

        run = self._driver.run(rows.query_id, plan)
        rows.follow(run, plan)
        if from_beginning:
            for record in self._past(run):
                rows.process(as_input(record))

    def _past(self, run: TaskRun) -> list[Any]:
        found = [each for topic in run.topics for each in self._driver.records(topic)]
        return sorted(found, key=lambda record: record.timestamp)

    def print_topic(self, statement: Print) -> PushRows:
        raise SqlError(
            "PRINT is of no use here.", remedy="driver.records(topic) has all of a topic's records."
        )


class MemoryTable:
    """The rows of a table, as pull queries ask for them."""

    def __init__(self, source: Source, rows: list[dict[str, Any]]) -> None:
        self._names = [each.name for each in source.schema.key]
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
