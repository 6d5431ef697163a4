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
from ottla.engine.task_files import forget
from ottla.engine.task_plan import TaskPlan
from ottla.queries.application_settings import ApplicationSettings
from ottla.queries.application_topics import Piece
from ottla.queries.cluster import Cluster
from ottla.queries.launcher import SHUFFLE, QueryLauncher, TriggerPolicy, briefly
from ottla.queries.sharing import is_local, trouble_of_driver, trouble_of_workers
from ottla.queries.spark_provider import OwnSession
from ottla.queries.starting_positions import Start, StartingPositions
from ottla.spark import session, source
from ottla.spark.checkpoints import Checkpoint, Position
from ottla.spark.work import packed, pickled, unpickled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CELL_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
CELL_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of cells that are on their way to a task at once; Spark would count rows, and a cell is many."""
TIMED_INTERVAL_MS: Final = 500
"""Where the clock may be asked for, Spark runs a batch at each trigger, rows or not."""


class TaskRuntime:
    """What all queries of an application need. `spark` is called when the first one starts."""

    def __init__(
        self,
        application_id: str,
        spark: Callable[[], SparkSession],
        cluster: Cluster,
        home: Path,
        wishes: ApplicationSettings,
        triggers: TriggerPolicy,
    ) -> None:
        self.application_id = application_id
        self.cluster = cluster
        self.home = home
        self.beginning = StartingPositions(application_id, cluster, home, wishes)
        self._triggers = triggers
        self._wishes = wishes
        self._own = OwnSession(spark, self._prepared)
        self._launcher = QueryLauncher()

    @property
    def spark(self) -> SparkSession:
        return self._own.get()

    def _prepared(self, spark: SparkSession) -> SparkSession:
        made = _own_session(spark, self._wishes.spark)
        made.conf.set(CELL_BYTES, str(CELL_BYTES_MAX))
        source.register(made)
        shared = self.tasks_place
        if not is_uri(shared) and (trouble := trouble_of_workers(made, Path(shared))):
            raise StreamsError(trouble)
        return made

    def close(self) -> None:
        """Through Spark Connect: a session that is left to the end of the process waits there for
        threads that are gone, for ever. (Else it is one JVM for all, and not ours to stop.)"""
        made = self._own.take()
        if made is not None and getattr(made, "_sc", None) is None:
            made.stop()

    def warm_up(self) -> None:
        """Starts Spark beside whatever else there is to do first. What goes wrong will do so again
        when the first query begins, and is told there."""

        def start() -> None:
            with contextlib.suppress(Exception):
                _ = self.spark

        threading.Thread(target=start, name=f"spark of {self.application_id}", daemon=True).start()

    def checkpoint(self, piece: Piece) -> Checkpoint:
        return Checkpoint(self.home / str(piece.number) / "checkpoint")

    @property
    def tasks_place(self) -> str:
        """Of all sub-topologies: the state directory, or what `state.dir` says."""
        place = self._wishes.state_place
        return joined(place, self.application_id) if place else str(self.home)

    def _tasks(self, piece: Piece) -> str:
        return joined(self.tasks_place, str(piece.number), "tasks")

    def begin(
        self,
        piece: Piece,
        start: Start,
        take: Callable[[DataFrame, int], None] | None = None,
    ) -> StreamingQuery:
        """`take` is given the rows of each batch in place of the topics."""
        checkpoint = self.checkpoint(piece)
        if (checkpoint.path / "state").exists():
            raise StreamsError(
                f"{self.home} is of a former version, which kept the state of tasks elsewhere."
                " Delete the directory, and the state is restored from topics."
            )
        tasks = state_folder(self._tasks(piece))
        tasks.make()
        forget(tasks, checkpoint.query_id, checkpoint.last_done)
        spark = self.spark
        plan = self._plan(piece, start)
        rows = self._read(spark, piece, plan, start.offsets)
        if piece.subtopology.stateful and plan.shuffled:
            rows = _shuffled(rows, plan)
        if take is None:
            writer = rows.writeStream.format("ottla").options(**self._sink(piece, start))
        else:
            writer = rows.writeStream.foreachBatch(briefly(take))
        writer = writer.outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint.path.as_uri())
        writer = writer.queryName(f"{self.application_id}_{piece.number}")
        timed = piece.subtopology.custom
        writer = writer.trigger(processingTime=f"{self._interval_ms(timed)} milliseconds")
        query = self._launcher.start(writer)
        if not is_local(spark):
            self._check_driver(query, checkpoint)
        return query

    def _check_driver(self, query: StreamingQuery, checkpoint: Checkpoint) -> None:
        if trouble := trouble_of_driver(checkpoint.path / "metadata", self.home):
            query.stop()
            raise StreamsError(trouble)

    def _sink(self, piece: Piece, start: Start) -> dict[str, str]:
        options = {**self.cluster.options(), "ottla.packed": "true"}
        if not self._wishes.exactly_once:
            return {**options, "ottla.delivery": "at_least_once"}
        name = self.beginning.query(piece)
        return {**options, "ottla.query.id": name, "ottla.batch.first": str(start.first)}

    def _interval_ms(self, timed: bool) -> int:
        wished = self._wishes.interval_ms
        if wished is not None:
            return wished
        return max(self._triggers.interval_ms({}), TIMED_INTERVAL_MS if timed else 0)

    def _plan(self, piece: Piece, start: Start) -> TaskPlan:
        homes = max(1, min(piece.tasks, int(self.spark.conf.get(SHUFFLE) or 1)))
        return TaskPlan(
            piece.subtopology,
            self.application_id,
            piece.tasks,
            self.cluster.bootstrap_servers,
            tuple(labels(piece.tasks, homes)),
            homes,
            self._tasks(piece),
            self.cluster.settings,
            self._wishes.caching,
            self._wishes.on_failure,
            start.first,
            start.restored,
            self._wishes.memory_bytes_max,
            self._wishes.local_folder,
        )

    def _read(
        self, spark: SparkSession, piece: Piece, plan: TaskPlan, start: Position
    ) -> DataFrame:
        options = {
            **self.cluster.options(),
            "startingOffsets": json.dumps(start),
            "maxOffsetsPerTrigger": str(self._wishes.batch_records_max),
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "ottla.work": packed(_worker(pickled(plan))),
            "ottla.work.ticks": str(piece.subtopology.custom).lower(),
        }
        if len(piece.tables) < len(piece.topics):
            options["ottla.first.topics"] = ",".join(piece.tables)
        if piece.subtopology.stateful and not plan.shuffled:
            options["ottla.work.homes"] = str(plan.homes)
        if piece.patterns:
            exactly = [re.escape(each) for each in piece.topics]
            options["subscribePattern"] = "|".join(f"(?:{e})" for e in (*exactly, *piece.patterns))
        else:
            options["subscribe"] = ",".join(piece.topics)
        return spark.readStream.format("ottla").options(**options).load()


def _own_session(spark: SparkSession, wishes: Mapping[str, str]) -> SparkSession:
    """Through Spark Connect a new session has the server's settings, and none of ours."""
    made = spark.newSession()
    if getattr(made, "_sc", None) is None:
        for name, value in {**session.SETTINGS, **wishes}.items():
            if made.conf.isModifiable(name):
                made.conf.set(name, value)
    return made


def _worker(plan: bytes) -> Callable[[], Any]:
    def make() -> Any:
        from ottla.engine.work import work  # with pandas: not for this process

        return work(unpickled(plan), plan)

    return make


def _shuffled(rows: DataFrame, plan: TaskPlan) -> DataFrame:
    from ottla.engine.task_calls import STEPPED, step

    return rows.repartition(plan.homes, "task").mapInArrow(step(plan), STEPPED)
