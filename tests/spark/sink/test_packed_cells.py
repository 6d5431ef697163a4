"""`ottla.packed`: many rows in each cell, which Spark does not decode."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.engine.packed_rows import pack_output_rows
from ottla.engine.records import OutputRow
from ottla.spark.sink.options import SinkError, write_options
from ottla.spark.sink.topic_records import check_columns, reader

OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "ottla.packed": "true"}


def test_rows_of_all_cells_are_records_of_their_topics() -> None:
    cells = [
        *pack_output_rows([OutputRow("a", b"k", b"1", 5, (), 1), OutputRow("b", None, b"2", 6)]),
        *pack_output_rows([OutputRow("a", b"k", None, 7)]),
    ]
    read = reader(write_options(OPTIONS))
    batch = pa.RecordBatch.from_pydict({"rows": pa.array(cells, pa.binary())})
    found: list[Any] = [
        (
            cells.topic,
            cells.columns.values.to_pylist(),
            None if cells.partitions is None else cells.partitions.tolist(),
        )
        for cells in read(batch)
    ]
    assert found == [("a", [b"1"], [1]), ("b", [b"2"], [-1]), ("a", [None], [-1])]


def test_the_column_is_required() -> None:
    with pytest.raises(SinkError, match="binary column rows, not value"):
        check_columns(StructType([StructField("value", BinaryType())]), write_options(OPTIONS))
