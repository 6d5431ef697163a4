"""How Spark queries are begun: options, triggers, sinks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark import session, source
from ottla.spark.sql.functions import register_udfs
from ottla.spark.sql.plan.stages import Input, Output, Stage, StreamJoin, internal_topic
from ottla.spark.sql.run import frames
from ottla.spark.sql.run.causes import brief
from ottla.spark.sql.run.checkpoints import Checkpoint, Position
from ottla.spark.sql.run.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SESSION_CLASS: Final = "org.apache.spark.sql.classic.SparkSession"
STARTING: Final = ("Initializing", "Getting offsets")
"""What Spark says of a query while its Python process starts."""
STARTING_S_MAX: Final = 20.0
STARTING_LOOK_S: Final = 0.02
INTERVAL_MS: Final = 100
INTERVAL_MS_MAX: Final = 2000
INTERVAL_NAMES: Final = ("ksql.streams.commit.interval.ms", "commit.interval.ms")
BATCH_RECORDS_MAX: Final = 1_000_000
EARLIEST_NAMES: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")


class Pace:
    """How often Spark looks for new records: seldom where many queries look.

    Each look costs the driver some milliseconds, data or not: a hundred queries that look ten times
    a second are a thousand looks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    @property
    def running(self) -> int:
        return self._running

    @contextmanager
    def counted(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def interval_ms(self, properties: Mapping[str, str]) -> int:
        for name in INTERVAL_NAMES:
            if name in properties:
                return max(int(properties[name]), 0)
        return min(INTERVAL_MS * max(self._running, 1), INTERVAL_MS_MAX)


def wants_earliest(properties: Mapping[str, str]) -> bool:
    return any(properties.get(each, "").lower() == "earliest" for each in EARLIEST_NAMES)


def activate(spark: SparkSession) -> None:
    """Makes it the session of this thread: a writer looks for its format there, and nowhere else.

    With Spark Connect there are no such threads.
    """
    jvm, session_in_jvm = getattr(spark, "_jvm", None), getattr(spark, "_jsparkSession", None)
    if jvm is not None:
        getattr(jvm, SESSION_CLASS).setActiveSession(session_in_jvm)


class Ground:
    """What every Spark query stands on: the session, the cluster, and who they belong to."""

    def __init__(
        self, spark: Callable[[], SparkSession], cluster: Cluster, service_id: str, pace: Pace
    ) -> None:
        self._spark = spark
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self.cluster = cluster
        self.service_id = service_id
        self.pace = pace

    @property
    def spark(self) -> SparkSession:
        """A session of our own: what the SQL needs set is nobody else's business."""
        with self._lock:
            if self._session is None or not session.lives(self._session):
                made = self._spark().newSession()
                source.register(made)
                register_udfs(made)
                self._session = made
            activate(self._session)
            return self._session

    def topic_of(self, place: Input | Output, query_id: str) -> str:
        if place.internal:
            return internal_topic(query_id, place.topic, self.service_id)
        return place.topic

    def read(
        self, place: Input, query_id: str, start: Position | None, checkpoint: Path
    ) -> DataFrame:
        """`start` counts until the checkpoint knows better."""
        topic = self.topic_of(place, query_id)
        if start and not Checkpoint(checkpoint).begun:
            # A partition that is newer than `start` is read from its beginning.
            known = self.cluster.position(topic, earliest=True)[topic]
            start = {topic: {**known, **start.get(topic, {})}}
        options = {
            **self.cluster.options(),
            "subscribe": topic,
            "startingOffsets": json.dumps(start) if start else "earliest",
            "maxOffsetsPerTrigger": str(BATCH_RECORDS_MAX),
            "kafka.isolation.level": "read_committed",
        }
        return frames.read(self.spark, place, options)

    def sink_options(self, output: Output, query_id: str) -> dict[str, str]:
        return {
            **self.cluster.options(),
            "topic": self.topic_of(output, query_id),
            "ottla.layout": output.layout.to_json(),
        }

    def begin_stage(
        self,
        stage: Stage,
        query_id: str,
        starts: list[Position | None],
        checkpoint: Path,
        properties: Mapping[str, str],
        sink: Callable[[DataFrame, int], None] | None = None,
    ) -> StreamingQuery:
        """A stage that has a Spark query of its own; `sink` takes the rows of a push query."""
        if isinstance(stage.operator, StreamJoin):
            # One side may be quiet for long: its watermark must not hold up the other's.
            self.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
        inputs = [
            self.read(each, query_id, start, checkpoint)
            for each, start in zip(stage.inputs, starts, strict=True)
        ]
        frame = frames.stage_frame(stage, inputs)
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
        writer = writer.queryName(f"{query_id}_{stage.step}")
        writer = writer.outputMode("update" if frames.is_update(stage.operator) else "append")
        interval = self.pace.interval_ms(properties)
        writer = writer.trigger(processingTime=f"{interval} milliseconds")
        if sink is not None:
            return self._started(writer.foreachBatch(briefly(sink)))
        options = self.sink_options(stage.output, query_id)
        if frames.is_update(stage.operator):
            return self._started(writer.foreachBatch(briefly(batch_writer(options))))
        return self._started(writer.format("ottla").options(**options))

    def begin_members(
        self,
        read: Input,
        members: list[dict[str, Any]],
        start: Position | None,
        checkpoint: Path,
        *,
        name: str,
        available_now: bool,
        properties: Mapping[str, str],
    ) -> StreamingQuery:
        """Stages without state, in one Spark query: a struct for each, null where it has no row."""
        frame = self.read(read, "", start, checkpoint)
        columns = [f"{member_column(each)} AS m{n}" for n, each in enumerate(members)]
        some = " OR ".join(f"m{n} IS NOT NULL" for n in range(len(members)))
        rows = frame.selectExpr(*columns).where(some)
        layouts = [
            {"column": f"m{n}", "topic": each["topic"], "layout": json.loads(each["layout"])}
            for n, each in enumerate(members)
        ]
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).queryName(name)
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            interval = self.pace.interval_ms(properties)
            writer = writer.trigger(processingTime=f"{interval} milliseconds")
        options = {**self.cluster.options(), "ottla.layouts": json.dumps(layouts)}
        return self._started(writer.outputMode("append").format("ottla").options(**options))

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        """One after the other: each starts a Python process, to which Spark gives ten seconds.

        Twenty that start at once, as after a restart, would all be too late, time and again.
        """
        with self._starting:
            query = writer.start()
            deadline = time.monotonic() + STARTING_S_MAX
            while query.isActive and time.monotonic() < deadline:
                if not str(query.status.get("message")).startswith(STARTING):
                    break
                time.sleep(STARTING_LOOK_S)
            return query

    def try_member(self, read: Input, member: Mapping[str, Any], start: Position) -> None:
        """Computes what a member makes of the rows from `start` on, and writes it nowhere."""
        options = {
            **self.cluster.options(),
            "subscribe": read.topic,
            "startingOffsets": json.dumps(start) if start else "earliest",
            "ottla.layout": read.layout.to_json(),
        }
        rows = self.spark.read.format("ottla").options(**options).load()
        made = rows.selectExpr(f"{member_column(member)} AS m")
        made.write.format("noop").mode("overwrite").save()


Batch = Callable[["DataFrame", int], None]


class BatchFailed(Exception):
    """What went wrong in a foreachBatch, in few words."""


def batch_writer(options: Mapping[str, str]) -> Batch:
    """Updates go out batch by batch; the sink takes query and batch from the job it runs in."""

    def write(frame: DataFrame, _: int) -> None:
        frame.write.format("ottla").mode("append").options(**options).save()

    return write


def briefly(work: Batch) -> Batch:
    """The same, with errors that Spark can read.

    It looks in the words of an error of foreachBatch for the reason (was the query stopped?), with
    an expression for which Java takes some of its stack for each character: a stack trace of
    twenty pages, as each error of Java's has, ends Spark's thread by a StackOverflowError.
    """

    def worked(frame: DataFrame, batch: int) -> None:
        try:
            work(frame, batch)
        except Exception as error:
            raise BatchFailed(brief(error)) from None

    return worked


def member_column(member: Mapping[str, Any]) -> str:
    """The struct of a member; rows that it has had already, before it joined, are left out."""
    text = str(member["text"])
    begins: Mapping[str, int] = member.get("from") or {}
    if not begins:
        return text
    cases = " ".join(f"WHEN {int(p)} THEN ROWOFFSET >= {int(o)}" for p, o in begins.items())
    return f"IF(CASE ROWPARTITION {cases} ELSE true END, {text}, NULL)"
