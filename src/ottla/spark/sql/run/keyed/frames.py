"""Inputs and outputs of keyed operators as DataFrames. `plan/stages.py` has their columns."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData, Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimeType,
)

from ottla.spark.sql.run.keyed.joins import LEFT, RIGHT
from ottla.spark.sql.run.keyed.order import Event
from ottla.spark.sql.schema import DELETED, ROWOFFSET, ROWPARTITION, ROWTIME

TIMELESS: Final = "none"
GROUP: Final = "__GROUP"
PLACE: Final = (ROWTIME, ROWPARTITION, ROWOFFSET, DELETED)


def keyed(rows: DataFrame, steps: StatefulProcessor, output: StructType) -> DataFrame:
    """Append, as no row that was given is ever another one: changes are rows of their own."""
    grouped = by_key(rows)
    return grouped.transformWithState(steps, output, outputMode="Append", timeMode=TIMELESS)


def by_key(rows: DataFrame) -> GroupedData:
    """What state is kept by. A struct (of group columns) as its text: PySpark sends it to the state
    store as a dict, which Java reads as null, and all groups would have one state. A time as well:
    Spark has none as a key of its state."""
    kind = type_of(rows, "key")
    if isinstance(kind, StructType | ArrayType | MapType):
        return rows.withColumn(GROUP, sf.to_json("key")).groupBy(GROUP)
    if isinstance(kind, TimeType):
        return rows.withColumn(GROUP, sf.col("key").cast("string")).groupBy(GROUP)
    return rows.groupBy("key")


def both(left: DataFrame, right: DataFrame) -> DataFrame:
    """Two inputs in one: each row has `left` or `right`, and the other is null."""
    lefts = left.select(
        *_place(LEFT), sf.col("row").alias("left"), null(type_of(right, "row"), "right")
    )
    rights = right.select(
        *_place(RIGHT), null(type_of(left, "row"), "left"), sf.col("row").alias("right")
    )
    return lefts.union(rights)


def joined_schema(left: DataFrame, right: DataFrame) -> StructType:
    return StructType(
        [
            StructField("key", type_of(left, "key")),
            StructField("left", type_of(left, "row")),
            StructField("right", type_of(right, "row")),
            StructField(ROWTIME, LongType()),
            StructField(DELETED, BooleanType()),
        ]
    )


def event_of(row: Row, *, side: int, column: str, extra: str = "") -> Event:
    return Event(
        side,
        row[ROWTIME],
        row[ROWPARTITION],
        row[ROWOFFSET],
        row[column],
        bool(row[DELETED]),
        extra=row[extra] if extra else None,
    )


def type_of(frame: DataFrame, column: str) -> DataType:
    return frame.schema[column].dataType


def null(kind: DataType, name: str) -> Column:
    return sf.lit(None).cast(kind).alias(name)


def _place(side: int) -> list[Column]:
    return [sf.col("key"), sf.lit(side).alias("side"), *map(sf.col, PLACE)]
