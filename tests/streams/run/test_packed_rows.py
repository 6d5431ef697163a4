"""Rows of tasks as cells of bytes, and back."""

from __future__ import annotations

import pyarrow as pa

from ottla.engine.packed_rows import input_rows, inputs, output_rows
from ottla.engine.records import Input, Output


def test_rows_with_another_key_are_the_same_behind_the_shuffle() -> None:
    rows = [
        Input("app-k-repartition", 3, 17, 1000, b"k", b"v", (("h", b"1"), ("n", None)), 0, "in"),
        Input("app-k-repartition", 3, 17, 1000, None, None, (), 1, "in"),
    ]
    assert list(inputs(input_rows(rows))) == rows


def test_what_leaves_a_task_is_what_the_sink_takes() -> None:
    rows = [
        Output("a", b"k", b"v", 5, (("h", b"1"),), 2),
        Output("b", None, None, 6),
    ]
    (cell,) = output_rows(rows)
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
