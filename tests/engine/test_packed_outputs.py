"""Outputs of tasks, packed by columns: the rows that they have one by one, in order."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from ottla.engine import packed_rows
from ottla.engine.packed_rows import pack_outputs, unpacked_batch
from ottla.engine.records import Headers, OutputColumns, OutputRow, output_rows

Output = OutputRow | OutputColumns


@pytest.mark.parametrize("seed", range(50))
def test_columns_are_packed_in_cells_of_bounded_size(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array holds 2 GiB at most, so parts are not put into one before they are cut."""
    chance = random.Random(seed)
    monkeypatch.setattr(packed_rows, "RECORDS_MAX", 10)
    outputs = [output(chance) for _ in range(chance.randrange(12))]
    cells = [unpacked_batch(cell) for cell in pack_outputs(outputs)]
    assert all(0 < cell.num_rows <= 10 for cell in cells)
    assert [row for cell in cells for row in rows_of(cell)] == output_rows(outputs)


def output(chance: random.Random) -> Output:
    topic = chance.choice("aab")
    if chance.random() < 0.3:
        return OutputRow(topic, b"k", None, 7, partition=chance.choice((None, 3)))
    count = chance.randrange(25)
    keys, values = column(chance, count), column(chance, count)
    headers: list[Headers] | None = None
    if chance.random() < 0.3:
        headers = [chance.choice(((), (("h", b"1"),))) for _ in range(count)]
    return OutputColumns(topic, keys, values, [chance.randrange(99) for _ in range(count)], headers)


def column(chance: random.Random, count: int) -> Any:
    """A list or an array, which may be a slice."""
    data = [chance.choice((None, b"", b"%d" % chance.randrange(9))) for _ in range(count)]
    if chance.random() < 0.5:
        return data
    return pa.array([b"before", *data, None], pa.binary())[1:-1]


def rows_of(cell: Any) -> list[OutputRow]:
    headers: list[Headers] = [()] * cell.num_rows
    if "headers" in cell.schema.names:
        headers = [
            tuple((header["key"], header["value"]) for header in given or ())
            for given in cell.column("headers").to_pylist()
        ]
    names = ("topic", "key", "value", "timestamp")
    columns = [cell.column(name).to_pylist() for name in names]
    return list(map(OutputRow, *columns, headers, cell.column("partition").to_pylist()))
