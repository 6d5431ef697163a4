"""A sub-topology as a Spark query: from its topics, through its tasks, into the sink."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark import session, source
from ottla.spark.running.begin import Pace, Starts, activate
from ottla.spark.running.checkpoints import Checkpoint, Position
from ottla.spark.running.cluster import Cluster
from ottla.spark.running.sharing import is_local, trouble_of_driver, trouble_of_workers
from ottla.spark.streams.failures import StreamsError
from ottla.spark.streams.run.beginning import Beginning, Start
from ottla.spark.streams.run.labels import labels
from ottla.spark.streams.run.plan import Plan
from ottla.spark.streams.run.settings import Settings
from ottla.spark.streams.run.task_files import forget
from ottla.spark.streams.run.topics import Piece
from ottla.spark.work import packed, pickled, unpickled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SHUFFLE: Final = "spark.sql.shuffle.partitions"
CELL_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
CELL_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of cells that are on their way to a task at once; Spark would count rows, and a cell is many."""
TIMED_INTERVAL_MS: Final = 500
"""Where the clock may be asked for, Spark runs a batch at each trigger, rows or not."""


class Ground:
    """What all queries of an application stand on. `spark` is called when the first one starts."""

    def __init__(
        self,
        application_id: str,
        spark: Callable[[], SparkSession],
        cluster: Cluster,
        home: Path,
        wishes: Settings,
    ) -> None:
        self.application_id = application_id
        self.cluster = cluster
        self.home = home
        self.beginning = Beginning(application_id, cluster, home, wishes)
        self.pace = Pace()
        self._wishes = wishes
        self._spark = spark
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._starts = Starts()

    @property
    def spark(self) -> SparkSession:
        """A session of our own: its settings are nobody else's business."""
        with self._lock:
            if self._session is None or not session.lives(self._session):
                made = _own_session(self._spark(), self._wishes.spark)
                made.conf.set(CELL_BYTES, str(CELL_BYTES_MAX))
                source.register(made)
                if trouble := trouble_of_workers(made, self.home):
                    raise StreamsError(trouble)
                self._session = made
            activate(self._session)
            return self._session

    def close(self) -> None:
        """Through Spark Connect: a session that is left to the end of the process waits there for
        threads that are gone, for ever. (Else it is one JVM for all, and not ours to stop.)"""
        with self._lock:
            made, self._session = self._session, None
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

    def _tasks(self, piece: Piece) -> Path:
        return self.home / str(piece.number) / "tasks"

    def begin(self, piece: Piece, start: Start) -> StreamingQuery:
        checkpoint = self.checkpoint(piece)
        if (checkpoint.path / "state").exists():
            raise StreamsError(
                f"{self.home} is of a former version, which kept the state of tasks elsewhere."
                " Delete the directory, and the state is restored from topics."
            )
        forget(self._tasks(piece), checkpoint.query_id, checkpoint.last_done)
        spark = self.spark
        plan = self._plan(piece, start)
        rows = self._read(spark, piece, plan, start.offsets)
        if piece.subtopology.stateful and plan.shuffled:
            rows = _shuffled(rows, plan)
        writer = rows.writeStream.format("ottla").options(**self._sink(piece, start))
        writer = writer.outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint.path.as_uri())
        writer = writer.queryName(f"{self.application_id}_{piece.number}")
        timed = piece.subtopology.custom
        writer = writer.trigger(processingTime=f"{self._interval_ms(timed)} milliseconds")
        query = self._starts.start(writer)
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
        return max(self.pace.interval_ms({}), TIMED_INTERVAL_MS if timed else 0)

    def _plan(self, piece: Piece, start: Start) -> Plan:
        homes = max(1, min(piece.tasks, int(self.spark.conf.get(SHUFFLE) or 1)))
        return Plan(
            piece.subtopology,
            self.application_id,
            piece.tasks,
            self.cluster.bootstrap_servers,
            tuple(labels(piece.tasks, homes)),
            homes,
            str(self._tasks(piece)),
            self.cluster.settings,
            self._wishes.caching,
            self._wishes.on_failure,
            start.first,
            start.restored,
        )

    def _read(self, spark: SparkSession, piece: Piece, plan: Plan, start: Position) -> DataFrame:
        options = {
            **self.cluster.options(),
            "startingOffsets": json.dumps(start),
            "maxOffsetsPerTrigger": str(self._wishes.batch_records_max),
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "ottla.work": packed(_worker(pickled(plan))),
            "ottla.work.ticks": str(piece.subtopology.custom).lower(),
        }
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
        from ottla.spark.streams.run.work import work  # with pandas: not for this process

        return work(unpickled(plan), plan)

    return make


def _shuffled(rows: DataFrame, plan: Plan) -> DataFrame:
    from ottla.spark.streams.run.visits import STEPPED, step

    return rows.repartition(plan.homes, "task").mapInArrow(step(plan), STEPPED)
