"""Stages as DataFrames, over rows that are all there or come from files: no broker, no topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.spark.sql.plan.stages import (
    Aggregate,
    AggregateCall,
    GroupColumn,
    Input,
    Side,
    StreamJoin,
)
from ottla.spark.sql.run.frames import operated
from ottla.spark.sql.schema import Format, Layout, Schema, WindowKind
from ottla.spark.sql.syntax.statements import JoinKind, SourceKind, Window
from ottla.spark.sql.types import BIGINT, STRING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

READ = Input("S", "s", Layout(Schema(()), Format("KAFKA"), Format("JSON")), SourceKind.STREAM)
GROUPS = (GroupColumn("G", "ITEM", STRING),)
COUNT = AggregateCall("C", "COUNT", (), (), (), BIGINT, spark="count(*)")
ROWS = "ITEM string, ROWTIME bigint, ROWPARTITION int, ROWOFFSET bigint, __DELETED boolean"


def counted(spark: SparkSession, window: Window, *rows: tuple[str, int]) -> list[tuple[Any, ...]]:
    frame = spark.createDataFrame(
        [(item, time_ms, 0, place, False) for place, (item, time_ms) in enumerate(rows)], ROWS
    )
    done = operated(Aggregate(READ, GROUPS, (COUNT,), window), [frame])
    return sorted(map(tuple, done.select("G", "WINDOWSTART", "WINDOWEND", "C").collect()))


def test_no_window_begins_before_1970(spark: SparkSession) -> None:
    hopping = Window(WindowKind.HOPPING, size_ms=30, advance_ms=10)
    assert counted(spark, hopping, ("tea", 5), ("tea", 12)) == [
        ("tea", 0, 30, 2),
        ("tea", 10, 40, 1),
    ]
    tumbling = Window(WindowKind.TUMBLING, size_ms=30)
    assert counted(spark, tumbling, ("tea", 0), ("tea", 30)) == [
        ("tea", 0, 30, 1),
        ("tea", 30, 60, 1),
    ]


def test_a_row_of_time_0_finds_its_partner_in_a_later_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    folders = [tmp_path / "left", tmp_path / "right"]
    for each in folders:
        each.mkdir()
    side = Side(READ, "ITEM", (("PLACE", "ROWOFFSET"),))
    join = StreamJoin(side, side, JoinKind.INNER, before_ms=10_000, after_ms=10_000, grace_ms=0)
    frames = [spark.readStream.schema(ROWS).json(str(each)) for each in folders]
    done = operated(join, frames).selectExpr("key", "left.PLACE", "right.PLACE", "ROWTIME")
    found: list[tuple[Any, ...]] = []
    writer = (
        done.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect())))
    )
    for place, (folder, time_ms) in enumerate(zip(folders, (0, 5000), strict=True)):
        row = {"ITEM": "tea", "ROWTIME": time_ms, "ROWPARTITION": 0, "ROWOFFSET": place}
        (folder / "rows.json").write_text(json.dumps(row | {"__DELETED": False}), encoding="utf-8")
        writer.start().awaitTermination()
    assert found == [("tea", 0, 1, 5000)]
