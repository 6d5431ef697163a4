"""`ottla.packed`: many rows in each cell, which Spark does not look into."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.engine.packed_rows import output_rows
from ottla.engine.records import Output
from ottla.spark.sink.options import SinkError, write_options
from ottla.spark.sink.rows import check_columns, reader

OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "ottla.packed": "true"}


def test_rows_of_all_cells_are_records_of_their_topics() -> None:
    cells = [
        *output_rows([Output("a", b"k", b"1", 5, (), 1), Output("b", None, b"2", 6)]),
        *output_rows([Output("a", b"k", None, 7)]),
    ]
    read = reader(write_options(OPTIONS))
    batch = pa.RecordBatch.from_pydict({"rows": pa.array(cells, pa.binary())})
    found: list[Any] = [
        (
            each.topic,
            each.columns.values.to_pylist(),
            None if each.partitions is None else each.partitions.tolist(),
        )
        for each in read(batch)
    ]
    assert found == [("a", [b"1"], [1]), ("b", [b"2"], [-1]), ("a", [None], [-1])]


def test_the_column_has_to_be_there() -> None:
    with pytest.raises(SinkError, match="binary column rows, not value"):
        check_columns(StructType([StructField("value", BinaryType())]), write_options(OPTIONS))
