"""Running queries, on a broker in this process and the tests' Spark session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client import Consumer, Producer
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.definitions import define
from ottla.sql.plan import QueryPlan, SinkSpec, plan_query
from ottla.sql.plan.spark_pull import plan_spark_pull
from ottla.sql.run.push import PushQuery
from ottla.sql.run.queries import Queries
from ottla.sql.run.spark_pull_runner import SparkPullResult
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import CreateAsSelect, CreateSource, InsertSelect, Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import LocalCluster

WAIT_S = 240.0


class Shop:
    """A catalog, the queries on it, and rows in and out."""

    def __init__(self, cluster: LocalCluster, spark: SparkSession, state_dir: Path) -> None:
        self.cluster = cluster
        self.spark = spark
        self.state_dir = state_dir
        self.catalog = Catalog()
        self.queries = self.opened()
        self._plans: dict[str, QueryPlan] = {}

    def opened(self) -> Queries:
        return Queries(lambda: self.spark, self.cluster.bootstrap_servers, self.state_dir)

    def reopen(self) -> None:
        """As a restarted server: the same statements and ids."""
        self.queries.close()
        self.queries = self.opened()
        for query_id, plan in self._plans.items():
            self.queries.start(query_id, plan)

    def forget(self, query_id: str) -> None:
        """The query was terminated while no server ran."""
        del self._plans[query_id]

    def run(self, text: str, **properties: str) -> str:
        """Defines a source, or starts a query and returns its id."""
        (statement,) = parse(text)
        given = {name.replace("_", "."): value for name, value in properties.items()}
        if isinstance(statement, CreateSource):
            definition = define(statement, self._partitions, {})
            if definition.topic:
                with self.cluster.admin() as admin:
                    admin.topics.create(definition.topic.name, definition.topic.partitions)
            self.catalog = self.catalog.with_source(definition.source)
            return ""
        if isinstance(statement, InsertSelect):
            target = self.catalog.find(statement.target)
            spec = SinkSpec(statement.target, target.kind, {}, target)
            query_id = f"INSERTQUERY_{len(self._plans)}"
            plan = plan_query(statement.query, self.catalog, given, sink=spec)
        else:
            assert isinstance(statement, CreateAsSelect)
            spec = SinkSpec(statement.name, statement.kind, statement.properties)
            plan = plan_query(statement.query, self.catalog, given, sink=spec)
            query_id = f"C{statement.kind[0]}AS_{statement.name}_{len(self._plans)}"
            assert plan.topic is not None
            source = DataSource(statement.name, plan.kind, plan.layout, plan.topic.name)
            self.catalog = self.catalog.with_source(source)
        self.queries.start(query_id, plan)
        self._plans[query_id] = plan
        return query_id

    def pushed(self, text: str, **properties: str) -> PushQuery:
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        given = {name.replace("_", "."): value for name, value in properties.items()}
        return self.queries.push(plan_query(statement.query, self.catalog, given))

    def pulled(self, text: str) -> SparkPullResult:
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        return self.queries.pull(plan_spark_pull(statement.query, self.catalog))

    def _partitions(self, topic: str) -> int | None:
        with self.cluster.admin() as admin:
            return None if topic not in admin.topics.names() else 1

    def insert(self, topic: str, *rows: tuple[str | None, dict[str, Any] | None, int]) -> None:
        """(key, value, time in ms) of each record; 0 would be now, says librdkafka."""
        assert all(time_ms for _, _, time_ms in rows)
        with Producer(self.cluster.bootstrap_servers) as producer:
            for key, value, time_ms in rows:
                producer.send(
                    topic,
                    json.dumps(value).encode() if value is not None else None,
                    key=key.encode() if key is not None else None,
                    timestamp_ms=time_ms,
                )
            producer.flush()

    def records(self, topic: str, count: int, wait_s: float = WAIT_S) -> list[tuple[Any, Any]]:
        """The first `count` records that are committed, and any that follow within a moment."""
        found: list[tuple[Any, Any]] = []
        deadline = time.monotonic() + wait_s
        quiet_until = 0.0
        with Consumer(
            self.cluster.bootstrap_servers,
            topic,
            auto_offset_reset="earliest",
            settings={"isolation.level": "read_committed"},
        ) as consumer:
            while time.monotonic() < deadline:
                record = consumer.poll(0.1)
                if record is not None:
                    value = json.loads(record.value) if record.value is not None else None
                    found.append((record.key, value))
                elif quiet_until and time.monotonic() > quiet_until:
                    break
                if len(found) >= count and not quiet_until:
                    quiet_until = time.monotonic() + 0.5
        return found


def eventually(true: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + wait_s
    while not true():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)
