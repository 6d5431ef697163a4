"""A stage becomes a DataFrame: inputs, operator, output."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ottla.spark.sql.plan.stages import (
    Aggregate,
    Input,
    Operator,
    Output,
    Project,
    SessionAggregate,
    Side,
    Stage,
    StreamJoin,
    TableAggregate,
    TableChanges,
)
from ottla.spark.sql.schema import (
    DELETED,
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    WINDOW_BOUNDS,
    WINDOWEND,
    WINDOWSTART,
    WindowKind,
)
from ottla.spark.sql.syntax.statements import Emit, JoinKind, SourceKind, Window
from ottla.spark.sql.types import spark_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYED: Final = "ottla.spark.sql.run.keyed"
TIME: Final = "__time"
WINDOW: Final = "__window"
IDENTITY: Final = "__KEY"
GONE: Final = "__GONE"
"""Columns of push queries of tables: which row it is, though its key be not selected; and whether
it is deleted, not only left out by a condition."""
JOINS: Final = {
    JoinKind.INNER: "inner",
    JoinKind.LEFT: "leftOuter",
    JoinKind.RIGHT: "rightOuter",
    JoinKind.OUTER: "fullOuter",
}


def read(spark: SparkSession, source: Input, options: Mapping[str, str]) -> DataFrame:
    """A topic as rows of typed columns."""
    reader = spark.readStream.format("ottla").option("ottla.layout", source.layout.to_json())
    return reader.options(**options).load()


def stage_frame(stage: Stage, inputs: list[DataFrame]) -> DataFrame:
    """What a stage writes: the columns of its layout and those that go with every row."""
    after = operated(stage.operator, inputs)
    return output_frame(after, stage.output, _identity(stage))


def _identity(stage: Stage) -> str:
    """The text of IDENTITY; "" for streams, and for what goes to a topic."""
    operator, output = stage.operator, stage.output
    if output.topic or not output.layout.is_table:
        return ""
    names = ["key"]
    if isinstance(operator, Project):
        names = [spark_name(each.name) for each in operator.input.layout.schema.key]
    elif isinstance(operator, Aggregate | SessionAggregate | TableAggregate):
        names = [spark_name(each.name) for each in operator.groups]
    names += WINDOW_BOUNDS if output.layout.windowed is not None else ()
    return f"to_json(struct({', '.join(names)}))"


def is_update(operator: Operator) -> bool:
    """Whether its result comes by updates, which Spark hands to foreachBatch only."""
    return isinstance(operator, Aggregate) and operator.emit is Emit.CHANGES


# -- operators


def operated(operator: Operator, inputs: list[DataFrame]) -> DataFrame:
    if isinstance(operator, Project):
        return narrowed(inputs[0], operator.input)
    if isinstance(operator, Aggregate):
        return _aggregated(operator, narrowed(inputs[0], operator.input))
    if isinstance(operator, StreamJoin):
        return _stream_join(operator, inputs[0], inputs[1])
    # Not at the top: it imports pandas.
    keyed = import_module(KEYED)
    frames = [side_frame(side, each) for side, each in zip(_sides(operator), inputs, strict=True)]
    done: DataFrame = keyed.apply(operator, frames)
    if isinstance(operator, TableChanges):
        return done.selectExpr("row.*", spark_name("__UNDO"), ROWTIME, f"false AS {DELETED}")
    if isinstance(operator, TableAggregate):
        return done.selectExpr("key.*", "row.*", ROWTIME, DELETED)
    if isinstance(operator, SessionAggregate):
        return done.selectExpr("key.*", "row.*", ROWTIME, DELETED, WINDOWSTART, WINDOWEND)
    return done


def _sides(operator: Operator) -> tuple[Side, ...]:
    if isinstance(operator, TableChanges | TableAggregate | SessionAggregate):
        return (operator.side,)
    assert not isinstance(operator, Project | Aggregate)
    return (operator.left, operator.right)


def narrowed(frame: DataFrame, source: Input) -> DataFrame:
    return _kept(frame, source.where, is_table=source.kind is SourceKind.TABLE)


def _kept(frame: DataFrame, where: str, *, is_table: bool) -> DataFrame:
    """A stream loses the rows that a condition does not hold for; a table has them deleted."""
    if not where:
        return frame
    if not is_table:
        return frame.where(f"NOT {DELETED} AND ({where})")
    from pyspark.sql.functions import expr

    return frame.withColumn(DELETED, expr(f"{DELETED} OR NOT coalesce({where}, false)"))


def side_frame(side: Side, frame: DataFrame, *, bounds: bool = False) -> DataFrame:
    """The columns that keyed operators are given; with `bounds` those of the windows as well."""
    is_table = side.input.kind is SourceKind.TABLE
    row = ", ".join(f"{_literal(name)}, {text}" for name, text in side.row)
    made = f"named_struct({row})" if row else "named_struct('__', 0)"
    if is_table:
        made = f"IF({DELETED}, NULL, {made})"
    columns = [f"{side.key} AS key", f"{made} AS row"]
    if side.foreign:
        columns.append(f"IF({DELETED}, NULL, {side.foreign}) AS foreign")
    found = narrowed(frame, side.input)
    if not is_table:
        found = found.where(f"NOT {DELETED}")
    columns += WINDOW_BOUNDS if bounds else ()
    return found.selectExpr(*columns, ROWTIME, ROWPARTITION, ROWOFFSET, DELETED)


def _aggregated(operator: Aggregate, frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import expr

    groups = [f"{each.spark} AS {spark_name(each.name)}" for each in operator.groups]
    rows = frame.where(f"NOT {DELETED}").selectExpr("*", *groups)
    for each in operator.groups:
        rows = rows.where(f"{spark_name(each.name)} IS NOT NULL")
    by = [expr(spark_name(each.name)) for each in operator.groups]
    window = operator.window
    if window is not None:
        rows = timed(rows, operator.grace_ms)
        by.append(expr(window_text(window)).alias(WINDOW))
    calls = [expr(f"{each.spark} AS {spark_name(each.name)}") for each in operator.calls]
    done = rows.groupBy(*by).agg(*calls, expr(f"max({ROWTIME}) AS {ROWTIME}"))
    done = since_the_epoch(done, window)
    names = [spark_name(each.name) for each in operator.groups]
    names += [spark_name(each.name) for each in operator.calls]
    return done.selectExpr(*names, ROWTIME, f"false AS {DELETED}", *window_bounds(window))


def timed(frame: DataFrame, delay_ms: int, *, text: str = ROWTIME) -> DataFrame:
    timed = frame.selectExpr("*", f"timestamp_millis({text}) AS {TIME}")
    return timed.withWatermark(TIME, f"{delay_ms} milliseconds")


def window_text(window: Window) -> str:
    if window.kind is WindowKind.SESSION:
        # Kafka joins what is exactly a gap apart, Spark does not.
        return f"session_window({TIME}, '{window.gap_ms + 1} milliseconds')"
    slide = window.advance_ms or window.size_ms
    return f"window({TIME}, '{window.size_ms} milliseconds', '{slide} milliseconds')"


def since_the_epoch(frame: DataFrame, window: Window | None) -> DataFrame:
    """Without the windows that begin before 1970, which Kafka Streams does not have."""
    if window is None or not window.advance_ms:
        return frame
    return frame.where(f"{WINDOW}.start >= timestamp_millis(0)")


def window_bounds(window: Window | None) -> list[str]:
    if window is None:
        return []
    # The end of a session is its last row's time.
    end = f"unix_millis({WINDOW}.end)"
    if window.kind is WindowKind.SESSION:
        end = f"{end} - {window.gap_ms + 1}"
    return [f"unix_millis({WINDOW}.start) AS {WINDOWSTART}", f"{end} AS {WINDOWEND}"]


def _stream_join(operator: StreamJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """The watermark's delay has the join's window in it: until then a row may find its partner,
    and Spark drops what is as old as the watermark, or older. That begins in 1970: all rows are a
    millisecond newer to it, so that it does not drop those of time 0."""
    from pyspark.sql.functions import expr

    names = ["key", "row", ROWTIME, TIME, *(WINDOW_BOUNDS if operator.windowed else ())]

    delay = operator.grace_ms + max(operator.before_ms, operator.after_ms)
    sides = []
    for name, side, frame in (("l", operator.left, left), ("r", operator.right, right)):
        rows = side_frame(side, frame, bounds=operator.windowed).where("key IS NOT NULL")
        on_time = timed(rows, delay, text=f"{ROWTIME} + 1")
        sides.append(on_time.selectExpr(*(f"{each} AS {name}_{each}" for each in names)))
    before, after = operator.before_ms, operator.after_ms
    condition = (
        "l_key = r_key"
        f" AND r_{TIME} >= l_{TIME} - {_interval(before)}"
        f" AND r_{TIME} <= l_{TIME} + {_interval(after)}"
    )
    bounds = WINDOW_BOUNDS if operator.windowed else ()
    condition += "".join(f" AND l_{each} = r_{each}" for each in bounds)
    done = sides[0].join(sides[1], expr(condition), JOINS[operator.kind])
    return done.selectExpr(
        "coalesce(l_key, r_key) AS key",
        "l_row AS left",
        "r_row AS right",
        f"greatest(l_{ROWTIME}, r_{ROWTIME}) AS {ROWTIME}",
        f"false AS {DELETED}",
        *(f"coalesce(l_{each}, r_{each}) AS {each}" for each in bounds),
    )


def _interval(milliseconds: int) -> str:
    """A literal: Spark looks for the range of a join before it has computed anything."""
    return f"INTERVAL {milliseconds} MILLISECONDS"


# -- outputs


def output_frame(frame: DataFrame, output: Output, identity: str = "") -> DataFrame:
    """The columns of the layout, and ROWTIME, the window's bounds, DELETED; IDENTITY and GONE."""
    columns = row_of(output)
    if identity:
        frame = frame.selectExpr("*", f"{identity} AS {IDENTITY}", f"{DELETED} AS {GONE}")
        columns += [(IDENTITY, IDENTITY), (GONE, GONE)]
    kept = _kept(frame, output.where, is_table=output.layout.is_table)
    if output.exploded:
        arrays = [f"{text} AS {spark_name(name)}" for name, text in output.exploded]
        names = ", ".join(spark_name(name) for name, _ in output.exploded)
        rest = [spark_name(each) for each in kept.columns]
        kept = kept.selectExpr("*", *arrays).selectExpr(*rest, f"inline(arrays_zip({names}))")
    if output.rowtime:
        kept = kept.where(has_time(output))
    return kept.selectExpr(*(f"{text} AS {spark_name(name)}" for name, text in columns))


def row_of(output: Output) -> list[tuple[str, str]]:
    """Name and text of every column that the sink is given."""
    rowtime = f"coalesce({output.rowtime}, {ROWTIME})" if output.rowtime else ROWTIME
    columns = [*output.columns, (ROWTIME, rowtime)]
    if output.layout.windowed is not None:
        columns += [(name, name) for name in WINDOW_BOUNDS]
    return [*columns, (DELETED, DELETED)]


def has_time(output: Output) -> str:
    """Whether a row can be written: by its own column there is no time for it that a record may
    have. One that is deleted has no columns, and the time of what deleted it."""
    return f"({DELETED} OR coalesce({output.rowtime} >= 0, false))"


def member_text(output: Output) -> str:
    """The output as one struct, null where it has no row: for stages that share a query."""
    row = dict(row_of(output))
    if output.where and output.layout.is_table:
        row[DELETED] = f"({DELETED} OR NOT coalesce({output.where}, false))"
    made = f"named_struct({', '.join(f'{_literal(name)}, {text}' for name, text in row.items())})"
    conditions = [has_time(output)] if output.rowtime else []
    if output.where and not output.layout.is_table:
        conditions.append(f"NOT {DELETED} AND ({output.where})")
    return f"IF({' AND '.join(conditions)}, {made}, NULL)" if conditions else made


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
