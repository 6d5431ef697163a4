"""Rows of tasks as cells of bytes, and back."""

from __future__ import annotations

import pyarrow as pa

from ottla.engine.packed_rows import pack_input_rows, pack_output_rows, unpack_input_rows
from ottla.engine.records import InputRow, OutputRow


def test_rekeyed_rows_survive_the_shuffle() -> None:
    rows = [
        InputRow("app-k-repartition", 3, 17, 1000, b"k", b"v", (("h", b"1"), ("n", None)), 0, "in"),
        InputRow("app-k-repartition", 3, 17, 1000, None, None, (), 1, "in"),
    ]
    assert list(unpack_input_rows(pack_input_rows(rows))) == rows


def test_the_output_of_a_task_is_the_input_of_the_sink() -> None:
    rows = [
        OutputRow("a", b"k", b"v", 5, (("h", b"1"),), 2),
        OutputRow("b", None, None, 6),
    ]
    (cell,) = pack_output_rows(rows)
    with pa.ipc.open_stream(cell) as stream:
        found = stream.read_all().to_pylist()
    assert found == [
        {
            "topic": "a",
            "key": b"k",
            "value": b"v",
            "timestamp": 5,
            "partition": 2,
            "headers": [{"key": "h", "value": b"1"}],
        },
        {
            "topic": "b",
            "key": None,
            "value": None,
            "timestamp": 6,
            "partition": None,
            "headers": [],
        },
    ]
