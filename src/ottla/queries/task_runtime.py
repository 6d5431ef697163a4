"""TaskRuntime starts a sub-topology as a Spark query: topics, tasks, sink."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.engine.failures import StreamsError
from ottla.engine.labels import labels
from ottla.engine.state_folder import is_uri, joined, state_folder
from ottla.engine.task_files import delete_obsolete_files
from ottla.engine.task_plan import TaskPlan
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import PreparedSubtopology
from ottla.queries.cluster import KafkaCluster
from ottla.queries.launcher import SHUFFLE, QueryLauncher, TriggerPolicy, briefly
from ottla.queries.shared_directory import driver_problem, executor_problem, is_local
from ottla.queries.spark_provider import OwnSession
from ottla.queries.starting_positions import StartingPositions, SubtopologyStart
from ottla.spark import session, source
from ottla.spark.checkpoints import Position, QueryCheckpoint
from ottla.spark.chunk_processor import packed, pickled, unpickled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CELL_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
CELL_BYTES_MAX: Final = 16 * 1024 * 1024
"""The bytes of cells per Arrow batch. Spark's limit by rows does not fit: a cell has many rows."""
TIMED_INTERVAL_MS: Final = 500
"""Where processors may punctuate by wall-clock time, Spark runs a batch at every trigger."""


class TaskRuntime:
    """Starts the queries of an application. `spark` is called when the first one starts."""

    def __init__(
        self,
        application_id: str,
        spark: Callable[[], SparkSession],
        cluster: KafkaCluster,
        state_dir: Path,
        settings: ApplicationSettings,
        triggers: TriggerPolicy,
    ) -> None:
        self.application_id = application_id
        self.cluster = cluster
        self.state_dir = state_dir
        self.beginning = StartingPositions(application_id, cluster, state_dir, settings)
        self._triggers = triggers
        self._settings = settings
        self._own = OwnSession(spark, self._prepared)
        self._launcher = QueryLauncher()

    @property
    def spark(self) -> SparkSession:
        return self._own.get()

    def _prepared(self, spark: SparkSession) -> SparkSession:
        made = _own_session(spark, self._settings.spark)
        made.conf.set(CELL_BYTES, str(CELL_BYTES_MAX))
        source.register(made)
        shared = self.tasks_folder
        if not is_uri(shared) and (trouble := executor_problem(made, Path(shared))):
            raise StreamsError(trouble)
        return made

    def close(self) -> None:
        """Stops the session if it is a Spark Connect one: at the process's exit it would wait for
        ever for threads that have ended. (Otherwise the session belongs to the shared JVM.)"""
        made = self._own.take()
        if made is not None and getattr(made, "_sc", None) is None:
            made.stop()

    def warm_up(self) -> None:
        """Starts Spark in the background. An error is ignored here, because the start of the first
        query raises it again."""

        def start() -> None:
            with contextlib.suppress(Exception):
                _ = self.spark

        threading.Thread(target=start, name=f"spark of {self.application_id}", daemon=True).start()

    def checkpoint(self, piece: PreparedSubtopology) -> QueryCheckpoint:
        return QueryCheckpoint(self.state_dir / str(piece.number) / "checkpoint")

    @property
    def tasks_folder(self) -> str:
        """The parent of all task state: the state directory, or `state.dir`."""
        folder = self._settings.state_folder
        return joined(folder, self.application_id) if folder else str(self.state_dir)

    def _tasks(self, piece: PreparedSubtopology) -> str:
        return joined(self.tasks_folder, str(piece.number), "tasks")

    def begin(
        self,
        piece: PreparedSubtopology,
        start: SubtopologyStart,
        take: Callable[[DataFrame, int], None] | None = None,
    ) -> StreamingQuery:
        """`take` receives the rows of each batch instead of the sink."""
        checkpoint = self.checkpoint(piece)
        if (checkpoint.path / "state").exists():
            raise StreamsError(
                f"{self.state_dir} was written by an earlier version with another layout of task"
                " state. Delete the directory, and the state is restored from topics."
            )
        tasks = state_folder(self._tasks(piece))
        tasks.make()
        # Before the query starts: no task of this query runs, and the checkpoint says which batch
        # is the last committed one.
        delete_obsolete_files(tasks, checkpoint.query_id, checkpoint.last_done)
        spark = self.spark
        plan = self._plan(piece, start)
        rows = self._read(spark, piece, plan, start.offsets)
        if piece.subtopology.stateful and plan.shuffled:
            rows = _with_shuffle(rows, plan)
        if take is None:
            writer = rows.writeStream.format("ottla").options(**self._sink(piece, start))
        else:
            writer = rows.writeStream.foreachBatch(briefly(take))
        writer = writer.outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint.location)
        writer = writer.queryName(f"{self.application_id}_{piece.number}")
        timed = piece.subtopology.custom
        writer = writer.trigger(processingTime=f"{self._interval_ms(timed)} milliseconds")
        query = self._launcher.start(writer)
        if not is_local(spark):
            self._check_driver(query, checkpoint)
        return query

    def _check_driver(self, query: StreamingQuery, checkpoint: QueryCheckpoint) -> None:
        if trouble := driver_problem(checkpoint.path / "metadata", self.state_dir):
            query.stop()
            raise StreamsError(trouble)

    def _sink(self, piece: PreparedSubtopology, start: SubtopologyStart) -> dict[str, str]:
        options = {**self.cluster.options(), "ottla.packed": "true"}
        if not self._settings.exactly_once:
            return {**options, "ottla.delivery": "at_least_once"}
        name = self.beginning.query(piece)
        return {**options, "ottla.query.id": name, "ottla.batch.first": str(start.first)}

    def _interval_ms(self, timed: bool) -> int:
        interval_ms = self._settings.interval_ms
        if interval_ms is not None:
            return interval_ms
        return max(self._triggers.interval_ms({}), TIMED_INTERVAL_MS if timed else 0)

    def _plan(self, piece: PreparedSubtopology, start: SubtopologyStart) -> TaskPlan:
        hosts = max(1, min(piece.tasks, int(self.spark.conf.get(SHUFFLE) or 1)))
        return TaskPlan(
            piece.subtopology,
            self.application_id,
            piece.tasks,
            self.cluster.bootstrap_servers,
            tuple(labels(piece.tasks, hosts)),
            hosts,
            self._tasks(piece),
            self.cluster.settings,
            self._settings.caching,
            self._settings.on_failure,
            start.first,
            start.restored,
            self._settings.memory_bytes_max,
            self._settings.local_folder,
        )

    def _read(
        self, spark: SparkSession, piece: PreparedSubtopology, plan: TaskPlan, start: Position
    ) -> DataFrame:
        options = {
            **self.cluster.options(),
            "startingOffsets": json.dumps(start),
            "maxOffsetsPerTrigger": str(self._settings.batch_records_max),
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "ottla.work": packed(_worker(pickled(plan))),
            "ottla.work.ticks": str(piece.subtopology.custom).lower(),
        }
        if len(piece.tables) < len(piece.topics):
            options["ottla.first.topics"] = ",".join(piece.tables)
        if piece.subtopology.stateful and not plan.shuffled:
            options["ottla.work.hosts"] = str(plan.hosts)
        if piece.patterns:
            exactly = [re.escape(topic) for topic in piece.topics]
            options["subscribePattern"] = "|".join(
                f"(?:{pattern})" for pattern in (*exactly, *piece.patterns)
            )
        else:
            options["subscribe"] = ",".join(piece.topics)
        return spark.readStream.format("ottla").options(**options).load()


def _own_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A new session. Through Spark Connect it would have only the server's settings."""
    made = spark.newSession()
    if getattr(made, "_sc", None) is None:
        for name, value in {**session.SETTINGS, **settings}.items():
            if made.conf.isModifiable(name):
                made.conf.set(name, value)
    return made


def _worker(plan: bytes) -> Callable[[], Any]:
    def make() -> Any:
        from ottla.engine.subtopology_processor import (
            subtopology_processor,  # imports pandas, which this process does not need
        )

        return subtopology_processor(unpickled(plan), plan)

    return make


def _with_shuffle(rows: DataFrame, plan: TaskPlan) -> DataFrame:
    from ottla.engine.task_calls import RESULT_SCHEMA, run_tasks

    return rows.repartition(plan.hosts, "task").mapInArrow(run_tasks(plan), RESULT_SCHEMA)
