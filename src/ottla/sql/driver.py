"""SqlTestDriver: runs statements on records of a test, in one process, without broker and Spark.

    with SqlTestDriver() as driver:
        driver.execute('''
            CREATE STREAM orders (id INT KEY, amount INT)
                WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
            CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;
        ''')
        driver.pipe("orders", 1, {"AMOUNT": 5})
        driver.pipe("orders", 1, {"AMOUNT": 7})
        assert driver.rows("totals") == [{"ID": 1, "TOTAL": 12}]

Parser, catalog, planner, validation and error messages are those of the server. Each record goes
through all queries before the next one, as in ksqlDB, so that there is an update for every record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, cast

from ottla.clock import Clock, SystemClock
from ottla.engine.failures import Failure, describe
from ottla.engine.records import Headers, InputRow, OutputRow, Windowed
from ottla.rows.errors import SqlError
from ottla.rows.formats import Decoder
from ottla.rows.schema import DELETED, Layout
from ottla.sql.catalog import DataSource
from ottla.sql.engine.engine import Engine
from ottla.sql.engine.entities import Entity
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.lowering import build_graph
from ottla.sql.lowering.row_serdes import RowKeySerde, RowValueSerde
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax.statements import CreateSource, Statement
from ottla.sql.testing.memory_query_executor import MemoryQueryExecutor, PushRows
from ottla.sql.testing.memory_registry import MemoryRegistry
from ottla.sql.testing.memory_topics import MemoryRecord, MemoryTopicClient
from ottla.sql.testing.task_run import TaskRun


class SqlTestDriver:
    """Executes statements, pipes records, and gives rows. `properties` are those of a server.

    `create_topics`: CREATE makes a missing topic, with one partition; otherwise it fails, as on a
    server. `clock` gives the time of rows without ROWTIME.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        create_topics: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.registry = MemoryRegistry()
        self.cluster = MemoryTopicClient()
        self.failures: list[str] = []
        """Why records could not be processed. These are skipped."""
        self._clock = clock or SystemClock()
        self._create_topics = create_topics
        settings = KsqlConfig({"bootstrap.servers": "memory:0", **(properties or {})})
        self.engine = Engine(settings, headless=True, cluster=self.cluster, registry=self.registry)
        self._answers = MemoryQueryExecutor(self, self._clock)
        self.engine.workers = cast(Any, self._answers)
        self.engine.start()
        self._runs: dict[str, TaskRun] = {}
        self._plans: Mapping[str, QueryPlan] = {}
        self._pushes: dict[str, PushRows] = {}
        self._waiting: deque[MemoryRecord] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for run in self._runs.values():
            run.close()
        self.engine.close()

    # -- statements

    def execute(self, text: str, properties: Mapping[str, object] | None = None) -> list[Entity]:
        """Execute statements one after another; SqlError as on a server."""
        found = self.engine.execute(text, properties, check=self._make_topics)
        self.start_queries()
        return found

    def query(self, text: str, properties: Mapping[str, object] | None = None) -> PushRows:
        """Open a SELECT. A pull query has all its rows; those of a push query come with later
        records."""
        self.start_queries()
        answer = self.engine.query(text, properties)
        assert isinstance(answer, PushRows)
        return answer

    def topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        self.cluster.topic(name, partitions)

    # -- records

    def pipe(
        self,
        topic: str,
        key: Any,
        value: Any,
        *,
        timestamp: int | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Process one record, with all records that follow from it.

        Bytes are used as they are. Otherwise the key is a value, or several values by name or as a
        tuple, and the value maps columns to values. The formats are those of the stream over the
        topic.
        """
        layout = None
        if not all(half is None or isinstance(half, bytes) for half in (key, value)):
            layout = self._layout(topic)
        self.send(
            topic,
            key if layout is None else _key_bytes(layout, key, self.registry),
            value if layout is None else _value_bytes(layout, value, self.registry),
            self._clock.now_ms() if timestamp is None else timestamp,
            headers,
            partition,
        )

    def insert(self, name: str, row: Mapping[str, Any]) -> None:
        """Insert a row, columns by name, as INSERT INTO ... VALUES does."""
        self.start_queries()
        self.engine.insert(name.upper(), row)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        self.start_queries()
        made = self.cluster.topic(topic).append(key, value, timestamp, headers, partition)
        self._waiting.append(made)
        while self._waiting:
            self._process(self._waiting.popleft())

    def records(self, topic: str) -> list[MemoryRecord]:
        """All records of a topic, in order of arrival."""
        found = self.cluster.topics.get(topic)
        return [] if found is None else list(found.records)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a stream in order, or the current rows of a table."""
        source = self.source(name)
        columns = [column.name for column in source.schema.columns]
        bounds = ("WINDOWSTART", "WINDOWEND") if source.is_windowed else ()
        return [
            {column: row[column] for column in (*columns, *bounds)} for row in self.all_rows(source)
        ]

    def all_rows(self, source: DataSource) -> list[dict[str, Any]]:
        """Rows with pseudo columns."""
        decoder = Decoder(source.layout, self.registry)
        found: dict[Any, dict[str, Any]] = {}
        for number, record in enumerate(self.records(source.topic)):
            try:
                row = decoder.row(
                    record.key,
                    record.value,
                    record.timestamp,
                    record.partition,
                    record.offset,
                    record.headers,
                )
            except ValueError:
                continue
            row_key = record.key if source.is_table else number
            found.pop(row_key, None)
            if not row[DELETED]:
                found[row_key] = row
        return list(found.values())

    def source(self, name: str) -> DataSource:
        catalog = self.engine.state.catalog
        return catalog.find(name if name in catalog.sources else name.upper())

    # -- queries

    def start_queries(self) -> None:
        """Start and stop queries so that those of the catalog run."""
        state = self.engine.state
        if state.plans is self._plans:
            return
        wanted = {id_: plan for id_, plan in state.plans.items() if id_ in state.catalog.queries}
        for id_ in [name for name in self._runs if wanted.get(name) is not self._plans.get(name)]:
            self._runs.pop(id_).close()
        for id_, plan in wanted.items():
            if id_ not in self._runs:
                self._runs[id_] = self.run(id_, plan)
        self._plans = state.plans

    def run(self, name: str, plan: QueryPlan) -> TaskRun:
        graph = build_graph(plan, self.registry)
        return TaskRun(name, graph, self._partitions, self._clock, self._failed)

    def push(self, rows: PushRows) -> None:
        self._pushes[rows.query_id] = rows

    def _partitions(self, topic: str) -> int:
        return self.cluster.partition_count(topic) or 1

    def _process(self, record: MemoryRecord) -> None:
        row = as_input(record)
        paused = {query.id for query in self.engine.state.catalog.queries.values() if query.paused}
        for id_, run in list(self._runs.items()):
            if record.topic in run.topics and id_ not in paused:
                for change in run.process(row):
                    self._sent(change)
        for push in list(self._pushes.values()):
            push.process(row)

    def _sent(self, made: OutputRow) -> None:
        topic = self.cluster.topic(made.topic)
        self._waiting.append(
            topic.append(made.key, made.value, made.timestamp, made.headers, made.partition)
        )

    def _failed(self, failure: Failure) -> Iterable[OutputRow]:
        self.failures.append(f"{describe(failure)}: {failure.error}")
        return ()

    def _make_topics(self, statements: Sequence[Statement]) -> None:
        if not self._create_topics:
            return
        for statement in statements:
            if isinstance(statement, CreateSource) and "PARTITIONS" not in statement.properties:
                name = statement.properties.get("KAFKA_TOPIC")
                if isinstance(name, str):
                    self.cluster.topic(name)

    def _layout(self, topic: str) -> Layout:
        sources = self.engine.state.catalog.sources.values()
        found = [source.layout for source in sources if source.topic == topic]
        if not found:
            raise SqlError(
                f"No stream or table has topic {topic}: pass key and value as bytes.",
                remedy="CREATE STREAM declares the format of its records.",
            )
        return found[0]


def as_input(record: MemoryRecord) -> InputRow:
    return InputRow(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )


def _key_bytes(layout: Layout, key: Any, registry: MemoryRegistry) -> bytes | None:
    if key is None or isinstance(key, bytes):
        return key
    window = None
    if isinstance(key, Windowed):
        key, window = key
    names = [column.name for column in layout.schema.key]
    if isinstance(key, Mapping) and set(key) <= set(names):
        key = tuple(map(key.get, names))
    elif not isinstance(key, tuple):
        key = (key,)
    serde = RowKeySerde(layout, registry)
    return serde.serialize("", key if window is None else Windowed(key, window))


def _value_bytes(layout: Layout, value: Any, registry: MemoryRegistry) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    columns = layout.schema.value
    unknown = set(value) - {column.name for column in columns}
    if unknown:
        raise SqlError(f"Unknown column: {', '.join(sorted(unknown))}.")
    return RowValueSerde(layout, registry).serialize("", tuple(value.get(e.name) for e in columns))


__all__ = ["SqlTestDriver"]
