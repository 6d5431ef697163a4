"""Decoded rows of every type survive Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ottla.rows import types as t
from ottla.rows.formats import Decoder, Encoder
from ottla.rows.schema import (
    Column,
    FormatInfo,
    Layout,
    LogicalSchema,
    Role,
    WindowInfo,
    WindowKind,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LAYOUT = Layout(
    LogicalSchema(
        (
            Column("K", t.INTEGER, Role.KEY),
            Column("A", t.BOOLEAN),
            Column("B", t.BIGINT),
            Column("C", t.DOUBLE),
            Column("D", t.STRING),
            Column("E", t.BYTES),
            Column("F", t.decimal(30, 10)),
            Column("G", t.TIME),
            Column("H", t.DATE),
            Column("I", t.TIMESTAMP),
            Column("J", t.array(t.map_of(t.STRING, t.BIGINT))),
            Column("L", t.struct(("x", t.INTEGER), ("Y", t.array(t.DATE)))),
        )
    ),
    FormatInfo("JSON"),
    FormatInfo("JSON"),
    is_table=True,
    windowed=WindowInfo(WindowKind.SESSION),
)
VALUES = [
    b'{"A":true,"B":-5,"C":1.5,"D":"\xc3\xbc\\"","E":"AP8=","F":1.0000000001,"G":86399999,'
    b'"H":-1,"I":-1,"J":[{"a":1,"b":null},null,{}],"L":{"x":1,"Y":[0,null]}}',
    b'{"A":null,"B":null,"C":null,"D":null,"E":null,"F":null,"G":null,"H":null,"I":null,'
    b'"J":null,"L":null}',
    None,
]


def test_every_type_through_spark(spark: SparkSession) -> None:
    keys = [b"%d" % n + n.to_bytes(8) * 2 for n in range(3)]
    numbers = pa.array(range(3), pa.int64())
    batch, bad = Decoder(LAYOUT).decode(
        pa.array(keys, pa.binary()),
        pa.array(VALUES, pa.binary()),
        numbers,
        numbers.cast(pa.int32()),
        numbers,
    )
    assert not bad
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema=LAYOUT.spark_schema())
    wanted = spark.createDataFrame([], LAYOUT.spark_schema())
    assert frame.dtypes == wanted.dtypes
    table = frame.orderBy("ROWTIME").toArrow().combine_chunks()
    found = Encoder(LAYOUT).encode(table.to_batches()[0])
    assert [array.to_pylist() for array in found] == [keys, VALUES, [0, 1, 2]]
