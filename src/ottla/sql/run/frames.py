"""DataFrames of stages: inputs, operator, output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.rows.schema import DELETED, ROWTIME, WINDOW_BOUNDS, WINDOWEND, WINDOWSTART, WindowKind
from ottla.rows.types import spark_name
from ottla.sql.plan.stages import (
    PlanNode,
    ProjectNode,
    QueryStage,
    SessionAggregateNode,
    StageInput,
    StageOutput,
    StreamAggregateNode,
    TableAggregateNode,
)
from ottla.sql.syntax.statements import Emit, SourceKind, WindowExpression
from ottla.sql.text import Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME: Final = "__time"
WINDOW: Final = "__window"
IDENTITY: Final = "__KEY"
GONE: Final = "__GONE"
"""Columns of push queries on tables: the identity of a row, whose key may not be selected; and
whether it was deleted, as opposed to filtered out."""


def read(spark: SparkSession, source: StageInput, options: Mapping[str, str]) -> DataFrame:
    """A topic as a DataFrame of typed columns."""
    reader = spark.readStream.format("ottla").option("ottla.layout", source.layout.to_json())
    return reader.options(**options).load()


def stage_frame(stage: QueryStage, inputs: list[DataFrame]) -> DataFrame:
    """What a stage writes: the columns of its layout, and those that every row has."""
    return stage_output(stage, operated(stage.operator, inputs))


def stage_output(stage: QueryStage, operated: DataFrame) -> DataFrame:
    """The output of a stage, given the rows of its operator."""
    return output_frame(operated, stage.output, _identity(stage))


def _identity(stage: QueryStage) -> str:
    """The text of IDENTITY; "" for streams, and for stages that write to a topic."""
    operator, output = stage.operator, stage.output
    if output.topic or not output.layout.is_table:
        return ""
    names = ["key"]
    if isinstance(operator, ProjectNode):
        names = [spark_name(column.name) for column in operator.input.layout.schema.key]
    elif isinstance(operator, StreamAggregateNode | SessionAggregateNode | TableAggregateNode):
        names = [spark_name(group.name) for group in operator.groups]
    names += WINDOW_BOUNDS if output.layout.windowed is not None else ()
    return f"to_json(struct({', '.join(names)}))"


def is_update(operator: PlanNode) -> bool:
    """True if the result comes as updates, for which Spark needs foreachBatch."""
    return isinstance(operator, StreamAggregateNode) and operator.emit is Emit.CHANGES


# -- operators


def operated(operator: PlanNode, inputs: list[DataFrame]) -> DataFrame:
    if isinstance(operator, ProjectNode):
        return narrowed(inputs[0], operator.input)
    if isinstance(operator, StreamAggregateNode):
        return _aggregated(operator, narrowed(inputs[0], operator.input))
    raise AssertionError(f"only tasks of the engine run {operator}")


def narrowed(frame: DataFrame, source: StageInput) -> DataFrame:
    return _kept(frame, source.where, is_table=source.kind is SourceKind.TABLE)


def _kept(frame: DataFrame, where: Text | None, *, is_table: bool) -> DataFrame:
    """Apply a condition: it drops rows of a stream, and makes tombstones of rows of a table."""
    if where is None:
        return frame
    if not is_table:
        return frame.where(f"NOT {DELETED} AND ({where.spark})")
    from pyspark.sql.functions import expr

    return frame.withColumn(DELETED, expr(f"{DELETED} OR NOT coalesce({where.spark}, false)"))


def _aggregated(operator: StreamAggregateNode, frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import expr

    groups = [f"{group.text.spark} AS {spark_name(group.name)}" for group in operator.groups]
    rows = frame.where(f"NOT {DELETED}").selectExpr("*", *groups)
    for group in operator.groups:
        rows = rows.where(f"{spark_name(group.name)} IS NOT NULL")
    by = [expr(spark_name(group.name)) for group in operator.groups]
    window = operator.window
    if window is not None:
        rows = timed(rows, operator.grace_ms)
        by.append(expr(window_text(window)).alias(WINDOW))
    calls = [expr(f"{call.spark} AS {spark_name(call.name)}") for call in operator.calls]
    done = rows.groupBy(*by).agg(*calls, expr(f"max({ROWTIME}) AS {ROWTIME}"))
    done = since_the_epoch(done, window)
    names = [spark_name(group.name) for group in operator.groups]
    names += [spark_name(call.name) for call in operator.calls]
    return done.selectExpr(*names, ROWTIME, f"false AS {DELETED}", *window_bounds(window))


def timed(frame: DataFrame, delay_ms: int, *, text: str = ROWTIME) -> DataFrame:
    timed = frame.selectExpr("*", f"timestamp_millis({text}) AS {TIME}")
    return timed.withWatermark(TIME, f"{delay_ms} milliseconds")


def window_text(window: WindowExpression) -> str:
    if window.kind is WindowKind.SESSION:
        # Kafka Streams merges sessions that are exactly a gap apart, Spark does not.
        return f"session_window({TIME}, '{window.gap_ms + 1} milliseconds')"
    slide = window.advance_ms or window.size_ms
    return f"window({TIME}, '{window.size_ms} milliseconds', '{slide} milliseconds')"


def since_the_epoch(frame: DataFrame, window: WindowExpression | None) -> DataFrame:
    """Drop hopping windows that start before 1970, which Kafka Streams does not have."""
    if window is None or not window.advance_ms:
        return frame
    return frame.where(f"{WINDOW}.start >= timestamp_millis(0)")


def window_bounds(window: WindowExpression | None) -> list[str]:
    if window is None:
        return []
    # A session ends at the time of its last row.
    end = f"unix_millis({WINDOW}.end)"
    if window.kind is WindowKind.SESSION:
        end = f"{end} - {window.gap_ms + 1}"
    return [f"unix_millis({WINDOW}.start) AS {WINDOWSTART}", f"{end} AS {WINDOWEND}"]


# -- outputs


def output_frame(frame: DataFrame, output: StageOutput, identity: str = "") -> DataFrame:
    """The columns of the layout, ROWTIME, window bounds and DELETED, IDENTITY and GONE."""
    columns = row_of(output)
    if identity:
        frame = frame.selectExpr("*", f"{identity} AS {IDENTITY}", f"{DELETED} AS {GONE}")
        columns += [(IDENTITY, IDENTITY), (GONE, GONE)]
    kept = _kept(frame, output.where, is_table=output.layout.is_table)
    if output.exploded:
        arrays = [f"{text.spark} AS {spark_name(name)}" for name, text in output.exploded]
        names = ", ".join(spark_name(name) for name, _ in output.exploded)
        rest = [spark_name(column) for column in kept.columns]
        kept = kept.selectExpr("*", *arrays).selectExpr(*rest, f"inline(arrays_zip({names}))")
    if output.rowtime:
        kept = kept.where(has_time(output))
    return kept.selectExpr(*(f"{text} AS {spark_name(name)}" for name, text in columns))


def row_of(output: StageOutput) -> list[tuple[str, str]]:
    """Name and text of every column for the sink."""
    rowtime = f"coalesce({output.rowtime.spark}, {ROWTIME})" if output.rowtime else ROWTIME
    columns = [*((name, text.spark) for name, text in output.columns), (ROWTIME, rowtime)]
    if output.layout.windowed is not None:
        columns += [(name, name) for name in WINDOW_BOUNDS]
    columns.append((DELETED, DELETED))
    # With PARTITION BY ROWTIME the key is ROWTIME too, with the same text.
    return list(dict(columns).items()) if output.topic else columns


def has_time(output: StageOutput) -> str:
    """The condition that a row has a valid timestamp, if a column gives it. A tombstone has no such
    column, but the timestamp of the record that deleted the row."""
    assert output.rowtime is not None
    return f"({DELETED} OR coalesce({output.rowtime.spark} >= 0, false))"


def member_text(output: StageOutput) -> str:
    """The output as a struct, null without a row, for stages that share a Spark query."""
    row = dict(row_of(output))
    if output.where and output.layout.is_table:
        row[DELETED] = f"({DELETED} OR NOT coalesce({output.where.spark}, false))"
    made = f"named_struct({', '.join(f'{_literal(name)}, {text}' for name, text in row.items())})"
    conditions = [has_time(output)] if output.rowtime else []
    if output.where and not output.layout.is_table:
        conditions.append(f"NOT {DELETED} AND ({output.where.spark})")
    return f"IF({' AND '.join(conditions)}, {made}, NULL)" if conditions else made


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
