"""Aggregates over tables and sessions in Spark; `aggregates.py` has what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from ottla.spark.sql.plan.stages import (
    UNDO,
    AggregateCall,
    SessionAggregate,
    TableAggregate,
    argument_name,
)
from ottla.spark.sql.run.keyed.aggregates import (
    Call,
    Calls,
    Session,
    Sessions,
    Totals,
    contributions,
)
from ottla.spark.sql.run.keyed.frames import by_key, event_of, keyed, type_of
from ottla.spark.sql.run.keyed.joins import LEFT
from ottla.spark.sql.run.keyed.order import in_order
from ottla.spark.sql.run.keyed.states import OneValue, Results, Rows, Timed
from ottla.spark.sql.schema import (
    DELETED,
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
)
from ottla.spark.sql.types import spark_name

EVENT_TIME: Final = "__TIME"


def table_changes(table: DataFrame) -> DataFrame:
    def work(state: dict[str, Any], key: Any, rows: Rows) -> Results:
        for event in in_order(event_of(row, side=LEFT, column="row") for row in rows):
            for each in contributions(state, event):
                yield each.row, each.undone, each.time_ms

    output = StructType(
        [
            StructField("row", type_of(table, "row")),
            StructField(UNDO, BooleanType()),
            StructField(ROWTIME, LongType()),
        ]
    )
    return keyed(table, OneValue(dict, work, output.names), output)


def table_aggregate(operator: TableAggregate, changes: DataFrame) -> DataFrame:
    names = _inputs(operator.calls)
    machine = Totals(_calls(operator.calls, names))
    results = [each.name for each in operator.calls]

    def work(state: list[Any], key: Any, rows: Rows) -> Results:
        newest = -1
        given = []
        for row in sorted(rows, key=_place):
            values = row["row"]
            newest = max(newest, row[ROWTIME])
            given.append((tuple(values[name] for name in names), bool(values[UNDO])))
        totals = dict(zip(results, machine.apply(state, given), strict=True))
        yield key, totals, machine.time_of(state, newest), False

    output = StructType([*_result_fields(operator.calls, changes)])
    return keyed(changes, OneValue(list, work, output.names), output)


def session_aggregate(operator: SessionAggregate, rows: DataFrame) -> DataFrame:
    """Spark leaves out rows as old as the watermark, or older; Kafka Streams those that are older
    than the newest time less gap and grace. So all rows are a millisecond newer to Spark."""
    names = _inputs(operator.calls)
    machine = Sessions(_calls(operator.calls, names), operator.gap_ms)
    results = [each.name for each in operator.calls]

    def work(state: list[Session], key: Any, rows: Rows, watermark_ms: int) -> Results:
        events = [event_of(row, side=LEFT, column="row") for row in rows]
        inputs = (
            replace(event, row=tuple(event.row[name] for name in names))
            for event in in_order(events)
        )
        for each in machine.apply(state, inputs, watermark_ms):
            row = None if each.deleted else dict(zip(results, each.results, strict=True))
            yield key, row, each.end_ms, each.deleted, each.start_ms, each.end_ms
        machine.expire(state, watermark_ms)

    bounds = [StructField(WINDOWSTART, LongType()), StructField(WINDOWEND, LongType())]
    output = StructType([*_result_fields(operator.calls, rows), *bounds])
    steps = Timed(list, work, _due_ms, output.names)
    timed = rows.withColumn(EVENT_TIME, sf.timestamp_millis(sf.col(ROWTIME) + 1))
    delay_ms = operator.gap_ms + operator.grace_ms + 1
    timed = timed.withWatermark(EVENT_TIME, f"{delay_ms} milliseconds")
    return by_key(timed).transformWithState(
        steps, output, outputMode="Append", timeMode="EventTime"
    )


def _place(row: Row) -> tuple[int, int]:
    return row[ROWPARTITION], row[ROWOFFSET]


def _due_ms(sessions: list[Session]) -> int | None:
    return min((each.end_ms + 1 for each in sessions), default=None)


def _inputs(calls: tuple[AggregateCall, ...]) -> list[str]:
    """The columns of `row` that have arguments, in order."""
    return [
        argument_name(call, position) for call in calls for position in range(len(call.arguments))
    ]


def _calls(calls: tuple[AggregateCall, ...], names: list[str]) -> Calls:
    return [
        Call(
            call.aggregation,
            tuple(names.index(argument_name(call, at)) for at in range(len(call.arguments))),
        )
        for call in calls
    ]


def _result_fields(calls: tuple[AggregateCall, ...], rows: DataFrame) -> list[StructField]:
    inside = ", ".join(f"{spark_name(each.name)}: {each.type.spark}" for each in calls)
    return [
        StructField("key", type_of(rows, "key")),
        StructField("row", StructType.fromDDL(f"struct<{inside}>")),
        StructField(ROWTIME, LongType()),
        StructField(DELETED, BooleanType()),
    ]
