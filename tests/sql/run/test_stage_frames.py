"""Stages as DataFrames, on static rows or files, without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.rows.schema import FormatInfo, Layout, LogicalSchema, WindowKind
from ottla.rows.types import BIGINT, STRING
from ottla.sql.plan.stages import (
    AggregateCall,
    GroupColumn,
    StageInput,
    StreamAggregateNode,
)
from ottla.sql.run.frames import operated
from ottla.sql.syntax.statements import SourceKind, WindowExpression
from ottla.sql.text import column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READ = StageInput(
    "S", "s", Layout(LogicalSchema(()), FormatInfo("KAFKA"), FormatInfo("JSON")), SourceKind.STREAM
)
GROUPS = (GroupColumn("G", column("ITEM"), STRING),)
COUNT = AggregateCall("C", "COUNT", (), (), (), BIGINT, spark="count(*)")
ROWS = "ITEM string, ROWTIME bigint, ROWPARTITION int, ROWOFFSET bigint, __DELETED boolean"


def counted(
    spark: SparkSession, window: WindowExpression, *rows: tuple[str, int]
) -> list[tuple[Any, ...]]:
    frame = spark.createDataFrame(
        [(item, time_ms, 0, place, False) for place, (item, time_ms) in enumerate(rows)], ROWS
    )
    done = operated(StreamAggregateNode(READ, GROUPS, (COUNT,), window), [frame])
    return sorted(map(tuple, done.select("G", "WINDOWSTART", "WINDOWEND", "C").collect()))


def test_no_window_begins_before_1970(spark: SparkSession) -> None:
    hopping = WindowExpression(WindowKind.HOPPING, size_ms=30, advance_ms=10)
    assert counted(spark, hopping, ("tea", 5), ("tea", 12)) == [
        ("tea", 0, 30, 2),
        ("tea", 10, 40, 1),
    ]
    tumbling = WindowExpression(WindowKind.TUMBLING, size_ms=30)
    assert counted(spark, tumbling, ("tea", 0), ("tea", 30)) == [
        ("tea", 0, 30, 1),
        ("tea", 30, 60, 1),
    ]
