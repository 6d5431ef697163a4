"""QueryRuntime: starts the Spark queries of SQL, with their options, triggers and sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.launcher import SHUFFLE, QueryLauncher, TriggerPolicy, batch_writer, briefly
from ottla.queries.spark_provider import OwnSession
from ottla.spark import source
from ottla.spark.checkpoints import Position, QueryCheckpoint
from ottla.sql.plan.stages import (
    QueryStage,
    StageInput,
    StageOutput,
    StreamAggregateNode,
    internal_topic,
)
from ottla.sql.run import frames
from ottla.sql.run.fused_plan import FusedPlan, fused_frame, fused_input, fused_layouts
from ottla.sql.run.query_topics import QueryTopics
from ottla.sql.run.session import prepare_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCH_RECORDS_MAX: Final = 1_000_000
"""Of each input."""
PUSH_RECORDS_MAX: Final = 100_000
"""The same for a push query, which has the rows of a batch in this process's memory."""
FEW_RECORDS: Final = 1000
"""A batch with fewer records may wait briefly for more."""
SMALL_BATCHES: Final = 20
"""The credit of a query: a lone record does not wait just because another came shortly before."""
EARLIEST_NAMES: Final = ("ksql.streams.auto.offset.reset", "auto.offset.reset")


def wants_earliest(properties: Mapping[str, str]) -> bool:
    return any(properties.get(name, "").lower() == "earliest" for name in EARLIEST_NAMES)


class QueryRuntime:
    """What all Spark queries of SQL need: the session, the topics, the service id."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        cluster: QueryTopics,
        service_id: str,
        triggers: TriggerPolicy,
    ) -> None:
        self.given_spark = spark
        self._own = OwnSession(spark, self._prepared)
        self._partitions_max = 1
        self._launcher = QueryLauncher()
        self.cluster = cluster
        self.service_id = service_id
        self.triggers = triggers

    @property
    def spark(self) -> SparkSession:
        return self._own.get()

    def _prepared(self, spark: SparkSession) -> SparkSession:
        made = spark.newSession()
        source.register(made)
        prepare_session(made)
        self._partitions_max = int(made.conf.get(SHUFFLE) or 1)
        return made

    def topic_of(self, place: StageInput | StageOutput, query_id: str) -> str:
        if place.internal:
            return internal_topic(query_id, place.topic, self.service_id)
        return place.topic

    def read(
        self,
        place: StageInput,
        query_id: str,
        start: Position | None,
        checkpoint: Path,
        *,
        rest_ms: int = 0,
        records_max: int = BATCH_RECORDS_MAX,
    ) -> DataFrame:
        """Read an input. `start` applies without a checkpoint; few records wait `rest_ms` for
        more."""
        topic = self.topic_of(place, query_id)
        if start and not QueryCheckpoint(checkpoint).begun:
            # A partition added after `start` was stored is read from its log start offset.
            known = self.cluster.position(topic, earliest=True)[topic]
            start = {topic: {**known, **start.get(topic, {})}}
        options = {
            **self.cluster.read_options(),
            "subscribe": topic,
            "startingOffsets": json.dumps(start) if start else "earliest",
            "kafka.isolation.level": "read_committed",
            "maxOffsetsPerTrigger": str(records_max),
        }
        if rest_ms:
            options["minOffsetsPerTrigger"] = str(FEW_RECORDS)
            options["maxTriggerDelay"] = f"{rest_ms}ms"
            options["ottla.small.batches"] = str(SMALL_BATCHES)
        return frames.read(self.spark, place, options)

    def sink_options(self, output: StageOutput, query_id: str) -> dict[str, str]:
        return {
            **self.cluster.options(),
            "topic": self.topic_of(output, query_id),
            "ottla.layout": output.layout.to_json(),
        }

    def begin_stage(
        self,
        stage: QueryStage,
        query_id: str,
        starts: list[Position | None],
        checkpoint: Path,
        properties: Mapping[str, str],
        sink: Callable[[DataFrame, int], None] | None = None,
        *,
        watched: bool = False,
    ) -> StreamingQuery:
        """Start a stage in its own Spark query; `sink` takes the rows of a push query.

        There is no waiting for more records in a push query, because a client watches; nor with
        two inputs, because later records of one would be read before earlier ones of the other.
        """
        may_rest = len(stage.inputs) == 1 and not watched
        updates = frames.is_update(stage.operator)
        aggregates = isinstance(stage.operator, StreamAggregateNode)
        rest_ms = self.triggers.rest_ms(properties, aggregates=aggregates) if may_rest else 0
        inputs = [
            self.read(
                stage_input,
                query_id,
                start,
                checkpoint,
                rest_ms=rest_ms,
                records_max=BATCH_RECORDS_MAX if sink is None else PUSH_RECORDS_MAX,
            )
            for stage_input, start in zip(stage.inputs, starts, strict=True)
        ]
        frame = frames.stage_frame(stage, inputs)
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
        writer = writer.queryName(f"{query_id}_{stage.step}")
        writer = writer.outputMode("update" if updates else "append")
        writer = self._paced(writer, properties)
        options = self.sink_options(stage.output, query_id)
        if sink is not None:
            writer = writer.foreachBatch(briefly(sink))
        elif updates:
            writer = writer.foreachBatch(briefly(batch_writer(options)))
        else:
            writer = writer.format("ottla").options(**options)
        topics = [self.topic_of(stage_input, query_id) for stage_input in stage.inputs]
        return self._launcher.start(writer, partitions=self._partitions(topics, checkpoint))

    def begin_members(
        self,
        read: StageInput,
        members: list[dict[str, Any]],
        start: Position | None,
        checkpoint: Path,
        *,
        name: str,
        available_now: bool,
        properties: Mapping[str, str],
    ) -> StreamingQuery:
        """Start stateless stages in one Spark query: a struct for each, null without a row."""
        rest_ms = self.triggers.rest_ms(properties)
        frame = self.read(read, "", start, checkpoint, rest_ms=rest_ms)
        columns = [f"{member_column(member)} AS m{n}" for n, member in enumerate(members)]
        some = " OR ".join(f"m{n} IS NOT NULL" for n in range(len(members)))
        rows = frame.selectExpr(*columns).where(some)
        layouts = [
            {"column": f"m{n}", "topic": member["topic"], "layout": json.loads(member["layout"])}
            for n, member in enumerate(members)
        ]
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).queryName(name)
        writer = self._paced(writer, properties, available_now=available_now)
        options = {**self.cluster.options(), "ottla.layouts": json.dumps(layouts)}
        return self._launcher.start(writer.outputMode("append").format("ottla").options(**options))

    def begin_fused(
        self,
        operator: StreamAggregateNode,
        plan: FusedPlan,
        outputs: Sequence[str],
        checkpoint: Path,
        *,
        name: str,
        properties: Mapping[str, str],
        available_now: bool = False,
    ) -> StreamingQuery:
        """Start fused aggregates in one Spark query; only those of `outputs` are written."""
        read = fused_input(operator)
        rest_ms = self.triggers.rest_ms(properties, aggregates=True)
        frame = self.read(read, "", plan.start, checkpoint, rest_ms=rest_ms)
        rows = fused_frame(frame, plan, outputs, operator)
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).queryName(name)
        writer = self._paced(writer, properties, available_now=available_now)
        layouts = json.dumps(fused_layouts(plan, outputs))
        options = {**self.cluster.options(), "ottla.layouts": layouts}
        writer = writer.outputMode("update").foreachBatch(briefly(batch_writer(options)))
        return self._launcher.start(writer, partitions=self._partitions([read.topic], checkpoint))

    def _paced(
        self,
        writer: DataStreamWriter,
        properties: Mapping[str, str],
        *,
        available_now: bool = False,
    ) -> DataStreamWriter:
        if available_now:
            return writer.trigger(availableNow=True)
        return writer.trigger(
            processingTime=f"{self.triggers.interval_ms(properties)} milliseconds"
        )

    def _partitions(self, topics: Sequence[str], checkpoint: Path) -> int | None:
        """The number of shuffle partitions: as many as the input has, like tasks of Kafka Streams.
        Spark's default of 200 would mean 200 state stores. None: the checkpoint has it."""
        if QueryCheckpoint(checkpoint).begun:
            return None
        wanted = max(self.cluster.partitions(topic) for topic in topics)
        return min(wanted, self._partitions_max)

    def try_member(self, read: StageInput, member: Mapping[str, Any], start: Position) -> None:
        """Compute a member's output for the rows from `start` on, without writing it."""
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
    """The struct of a member, without rows that it has written before it joined."""
    text = str(member["text"])
    begins: Mapping[str, int] = member.get("from") or {}
    if not begins:
        return text
    cases = " ".join(f"WHEN {int(p)} THEN ROWOFFSET >= {int(o)}" for p, o in begins.items())
    return f"IF(CASE ROWPARTITION {cases} ELSE true END, {text}, NULL)"
