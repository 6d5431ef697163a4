"""One of ksqlDB's query validation cases after the other, on Spark, against one broker.

Each case has an engine of its own, as `ottla sql-server` has one: service id, state directory and
context of the schema registry are the case's, and its topics are deleted at its end. The engines
share Spark. A case is done when all its Spark queries have processed all records, and none has
written more: nothing waits by the clock.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.records.record import Record
from ottla.rows.errors import SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.run.query_executor import QueryExecutor
from ottla.sql.syntax.statements import CreateSource, Statement
from suites.ksql.case_topics import CaseTopics
from suites.ksql.registry_context import RegistryContext
from suites.ksql.spark_queries import SparkQueries
from suites.ksqldb_cases import Case, Verdict, prepare, properties_of, refused, wanted_words
from suites.ksqldb_comparison import difference
from suites.ksqldb_values import BadCase, encoded, headers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNING_S_MAX: Final = 300.0
SETTLED_S_MAX: Final = 600.0
LOOK_S: Final = 0.02
EACH_UPDATE: Final = {"cache.max.bytes.buffering": "0"}
"""As ksqlDB's own runner: the cases expect each update of a table."""
TRIGGERS: Final = {"commit.interval.ms": "50"}
"""A query looks for records this often, and does not wait for more."""
EARLIEST: Final = {"auto.offset.reset": "earliest"}


class FailedQuery(Exception):
    """A query of the case has failed; the message has the cause."""


class SparkLane:
    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        registry: str,
        folder: Path,
        *,
        name: str,
        merged: bool = False,
    ) -> None:
        """`merged`: with the record cache, so that aggregates run on Spark's own operators."""
        self._spark = spark
        self._topics = CaseTopics(bootstrap)
        self._registry = registry
        self._folder = folder
        self._name = name
        self._merged = merged
        self._count = 0

    def judge(self, case: Case) -> Verdict:
        """All records at once; if that differs, one after another, as ksqlDB feeds its cases."""
        verdict = self._tried(case, one_by_one=False)
        several = len(case.body.get("inputs", ())) > 1
        if verdict.agrees or verdict.left_out or case.negative or not several:
            return verdict
        again = self._tried(case, one_by_one=True)
        if again.agrees:
            return Verdict(case, True, f"record by record; at once: {verdict.cause}")
        return again

    def _tried(self, case: Case, *, one_by_one: bool) -> Verdict:
        self._count += 1
        try:
            with self._run() as run:
                return run.judge(
                    case, self._properties(), one_by_one=one_by_one, merged=self._merged
                )
        except BadCase as error:
            return Verdict(case, False, f"harness: {error}")
        except FailedQuery as error:
            return Verdict(case, case.negative, f"failed: {error}"[:600])
        except Exception as error:  # of the harness: no refusal
            return Verdict(case, False, f"{type(error).__name__}: {error}"[:600])

    def _properties(self) -> dict[str, str]:
        return {**EARLIEST, **TRIGGERS, **({} if self._merged else EACH_UPDATE)}

    @contextmanager
    def _run(self) -> Iterator[CaseRun]:
        service = f"{self._name}_{self._count}_"
        context = f"{self._registry}/contexts/.{service}"
        folder = self._folder / "state"
        run = CaseRun(self._spark, self._topics, context, folder, service)
        try:
            yield run
        finally:
            run.close()
            self._topics.delete_all()
            shutil.rmtree(folder, ignore_errors=True)


class CaseRun:
    def __init__(
        self, spark: SparkSession, topics: CaseTopics, registry: str, folder: Path, service: str
    ) -> None:
        self._spark = spark
        self._topics = topics
        self._registry = RegistryContext(registry)
        self._settings = {
            "bootstrap.servers": topics.bootstrap,
            "ksql.service.id": service,
            "ksql.streams.state.dir": str(folder),
            "ksql.schema.registry.url": registry,
        }
        self._queries = SparkQueries(spark, folder / service)
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        assert self._engine is not None
        return self._engine

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._registry.close()

    def judge(
        self, case: Case, properties: dict[str, str], *, one_by_one: bool, merged: bool
    ) -> Verdict:
        settings = KsqlConfig({**self._settings, **properties_of(case.body)})
        executor = QueryExecutor(settings, lambda: self._spark)
        self._engine = Engine(settings, executor, headless=True)
        self._engine.start()
        try:
            self._registry.accept_any_schema()
            prepare(case.body, self._topics.create, self._registry)
            for statement in case.body["statements"]:
                self._engine.execute(statement, properties, check=self._make_topics)
        except SqlError as error:
            return refused(case, error)
        self._feed(case.body.get("inputs", ()), one_by_one=one_by_one)
        if case.negative:
            return self._failed_late(case)
        layouts = {source.topic: source.layout for source in reversed(self._sources())}
        outputs = case.body.get("outputs", ())
        cause = difference(outputs, layouts, self._topics.records, self._registry, merged=merged)
        trouble = f" [{self._unreadable()}]" if cause and self._unreadable() else ""
        return Verdict(case, not cause, f"{cause}{trouble}")

    def _make_topics(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, CreateSource) and "PARTITIONS" not in statement.properties:
                name = statement.properties.get("KAFKA_TOPIC")
                if isinstance(name, str):
                    self._topics.create(name)

    def _sources(self) -> list[Any]:
        return list(self.engine.state.catalog.sources.values())

    def _failed_late(self, case: Case) -> Verdict:
        """Refused when records came, as ksqlDB's own runner accepts it."""
        log = self.engine.settings.processing_log
        if any(map(len, self._topics.records(log))):
            return Verdict(case, True)
        return Verdict(case, False, f"not refused: {wanted_words(case.body)[:150]}")

    def _unreadable(self) -> str:
        log = self.engine.settings.processing_log
        found = [record for partition in self._topics.records(log) for record in partition]
        return str(found[0].value)[:300] if found else ""

    # Records

    def _feed(self, inputs: Sequence[dict[str, Any]], *, one_by_one: bool) -> None:
        if one_by_one:
            self._run_queries()
            for record in inputs:
                self._send([record])
                self._settle()
            return
        self._send(inputs)
        self._run_queries()
        self._settle()

    def _send(self, inputs: Sequence[dict[str, Any]]) -> None:
        for topic in dict.fromkeys(record["topic"] for record in inputs):
            layout = next(
                (source.layout for source in self._sources() if source.topic == topic), None
            )
            records = []
            for record in inputs:
                if record["topic"] == topic:
                    key, value = encoded(record, layout, self._registry)
                    headers = list(headers_of(record) or ())
                    timestamp = int(record.get("timestamp", 0))
                    records.append(
                        Record(timestamp=timestamp, key=key, value=value, headers=headers)
                    )
            self._topics.send(topic, records)

    def _run_queries(self) -> None:
        engine = self.engine
        if not engine.state.catalog.queries:
            return
        engine.ask_to_run()
        deadline = time.monotonic() + RUNNING_S_MAX
        while not self._are_running():
            if time.monotonic() > deadline:
                raise FailedQuery(f"not running after {RUNNING_S_MAX:.0f} s: {self._states()}")
            time.sleep(LOOK_S)

    def _states(self) -> dict[str, Any]:
        return self.engine.query_facts()

    def _are_running(self) -> bool:
        states = self._states()
        for id_, state in states.items():
            if state.state in ("FAILED", "RESTARTING"):
                raise FailedQuery(f"{id_} is {state.state}: {state.cause}")
        return all(state.state in ("RUNNING", "PAUSED") for state in states.values())

    def _settle(self) -> None:
        """Wait until a round of all queries has written nothing new."""
        deadline = time.monotonic() + SETTLED_S_MAX
        before: object = None
        while True:
            self._are_running()
            try:
                self._queries.process_all_available()
            except Exception as error:
                raise FailedQuery(" ".join(str(error).split())[:500]) from None
            ends = self._topics.ends()
            if ends == before:
                self._are_running()
                return
            if time.monotonic() > deadline:
                raise FailedQuery(f"records still come after {SETTLED_S_MAX:.0f} s")
            before = ends
