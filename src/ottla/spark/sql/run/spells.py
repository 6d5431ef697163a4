"""How Spark queries are begun: options, triggers, sinks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark import session, source
from ottla.spark.running.begin import SHUFFLE, Pace, Starts, activate, batch_writer, briefly
from ottla.spark.running.checkpoints import Checkpoint, Position
from ottla.spark.sql.functions import register_udfs
from ottla.spark.sql.plan.stages import (
    Aggregate,
    Input,
    Operator,
    Output,
    Stage,
    StreamJoin,
    StreamTableJoin,
    internal_topic,
)
from ottla.spark.sql.run import frames
from ottla.spark.sql.run.cluster import Cluster
from ottla.spark.sql.run.together import Together, shared_frame, shared_input, shared_layouts
from ottla.spark.sql.syntax.statements import SourceKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCH_RECORDS_MAX: Final = 1_000_000
"""Of each input, but of those that another must not be ahead of."""
FEW_RECORDS: Final = 1000
"""Fewer than these can wait a moment for others."""
EARLIEST_NAMES: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")


def wants_earliest(properties: Mapping[str, str]) -> bool:
    return any(properties.get(each, "").lower() == "earliest" for each in EARLIEST_NAMES)


def _in_parts(operator: Operator, place: Input) -> bool:
    """Whether a batch need not have all that there is of an input.

    A row of a stream would not find what the table has had for long; and if one of two streams is
    far ahead, time has passed for the other, and its rows come too late.
    """
    if isinstance(operator, StreamTableJoin):
        return place.kind is SourceKind.STREAM
    return not isinstance(operator, StreamJoin)


class Ground:
    """What every Spark query stands on: the session, the cluster, and who they belong to."""

    def __init__(
        self, spark: Callable[[], SparkSession], cluster: Cluster, service_id: str, pace: Pace
    ) -> None:
        self._spark = spark
        self._session: SparkSession | None = None
        self._partitions_max = 1
        self._lock = threading.Lock()
        self._starts = Starts()
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
                self._partitions_max = int(made.conf.get(SHUFFLE) or 1)
                self._session = made
            activate(self._session)
            return self._session

    def topic_of(self, place: Input | Output, query_id: str) -> str:
        if place.internal:
            return internal_topic(query_id, place.topic, self.service_id)
        return place.topic

    def read(
        self,
        place: Input,
        query_id: str,
        start: Position | None,
        checkpoint: Path,
        *,
        in_parts: bool = True,
        rest_ms: int = 0,
    ) -> DataFrame:
        """`start` counts until the checkpoint knows better; few records are gathered that long."""
        topic = self.topic_of(place, query_id)
        if start and not Checkpoint(checkpoint).begun:
            # A partition that is newer than `start` is read from its beginning.
            known = self.cluster.position(topic, earliest=True)[topic]
            start = {topic: {**known, **start.get(topic, {})}}
        options = {
            **self.cluster.options(),
            "subscribe": topic,
            "startingOffsets": json.dumps(start) if start else "earliest",
            "kafka.isolation.level": "read_committed",
        }
        if in_parts:
            options["maxOffsetsPerTrigger"] = str(BATCH_RECORDS_MAX)
        if rest_ms:
            options["minOffsetsPerTrigger"] = str(FEW_RECORDS)
            options["maxTriggerDelay"] = f"{rest_ms}ms"
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
        *,
        watched: bool = False,
    ) -> StreamingQuery:
        """A stage that has a Spark query of its own; `sink` takes the rows of a push query.

        Where somebody is watching, nothing rests. Nor does one of two inputs: the other, which
        came later, would be read before it.
        """
        if isinstance(stage.operator, StreamJoin):
            # One side may be quiet for long: its watermark must not hold up the other's.
            self.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
        may_rest = len(stage.inputs) == 1 and not watched
        inputs = [
            self.read(
                each,
                query_id,
                start,
                checkpoint,
                in_parts=_in_parts(stage.operator, each),
                rest_ms=self.pace.rest_ms(properties) if may_rest else 0,
            )
            for each, start in zip(stage.inputs, starts, strict=True)
        ]
        frame = frames.stage_frame(stage, inputs)
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
        writer = writer.queryName(f"{query_id}_{stage.step}")
        writer = writer.outputMode("update" if frames.is_update(stage.operator) else "append")
        writer = self._paced(writer, properties)
        options = self.sink_options(stage.output, query_id)
        if sink is not None:
            writer = writer.foreachBatch(briefly(sink))
        elif frames.is_update(stage.operator):
            writer = writer.foreachBatch(briefly(batch_writer(options)))
        else:
            writer = writer.format("ottla").options(**options)
        topics = [self.topic_of(each, query_id) for each in stage.inputs]
        return self._starts.start(writer, partitions=self._partitions(topics, checkpoint))

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
        rest_ms = self.pace.rest_ms(properties)
        frame = self.read(read, "", start, checkpoint, rest_ms=rest_ms)
        columns = [f"{member_column(each)} AS m{n}" for n, each in enumerate(members)]
        some = " OR ".join(f"m{n} IS NOT NULL" for n in range(len(members)))
        rows = frame.selectExpr(*columns).where(some)
        layouts = [
            {"column": f"m{n}", "topic": each["topic"], "layout": json.loads(each["layout"])}
            for n, each in enumerate(members)
        ]
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).queryName(name)
        writer = self._paced(writer, properties, available_now=available_now)
        options = {**self.cluster.options(), "ottla.layouts": json.dumps(layouts)}
        return self._starts.start(writer.outputMode("append").format("ottla").options(**options))

    def begin_together(
        self,
        operator: Aggregate,
        plan: Together,
        outputs: Sequence[str],
        checkpoint: Path,
        *,
        name: str,
        properties: Mapping[str, str],
        available_now: bool = False,
    ) -> StreamingQuery:
        """Aggregates in one Spark query, of which those of `outputs` are written."""
        read, rest_ms = shared_input(operator), self.pace.rest_ms(properties)
        frame = self.read(read, "", plan.start, checkpoint, rest_ms=rest_ms)
        rows = shared_frame(frame, plan, outputs, operator)
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).queryName(name)
        writer = self._paced(writer, properties, available_now=available_now)
        layouts = json.dumps(shared_layouts(plan, outputs))
        options = {**self.cluster.options(), "ottla.layouts": layouts}
        writer = writer.outputMode("update").foreachBatch(briefly(batch_writer(options)))
        return self._starts.start(writer, partitions=self._partitions([read.topic], checkpoint))

    def _paced(
        self,
        writer: DataStreamWriter,
        properties: Mapping[str, str],
        *,
        available_now: bool = False,
    ) -> DataStreamWriter:
        if available_now:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{self.pace.interval_ms(properties)} milliseconds")

    def _partitions(self, topics: Sequence[str], checkpoint: Path) -> int | None:
        """As many as the input has, as with Kafka's tasks: Spark's 200 would be 200 states to keep
        in each batch, of a topic with two partitions. None: the checkpoint says it."""
        if Checkpoint(checkpoint).begun:
            return None
        wanted = max(self.cluster.partitions(each) for each in topics)
        return min(wanted, self._partitions_max)

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


def member_column(member: Mapping[str, Any]) -> str:
    """The struct of a member; rows that it has had already, before it joined, are left out."""
    text = str(member["text"])
    begins: Mapping[str, int] = member.get("from") or {}
    if not begins:
        return text
    cases = " ".join(f"WHEN {int(p)} THEN ROWOFFSET >= {int(o)}" for p, o in begins.items())
    return f"IF(CASE ROWPARTITION {cases} ELSE true END, {text}, NULL)"
