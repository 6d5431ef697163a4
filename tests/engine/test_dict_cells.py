"""Cells in memory, compared with a dict that is sorted for each read."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla.engine.cells import DictCells, LoggedCells

PLACE = struct.Struct(">qi")
stems = st.sampled_from([b"", b"a", b"ab", b"\xff", b"a\x00"])
times = st.integers(0, 5)
numbers = st.integers(0, 2)
puts = st.lists(st.tuples(stems, times, numbers, st.one_of(st.none(), st.binary(max_size=2))))


@given(puts, puts, stems, times, times)
def test_under_finds_cells_by_stem_and_time(
    before: list[tuple[bytes, int, int, bytes | None]],
    later: list[tuple[bytes, int, int, bytes | None]],
    stem: bytes,
    first_ms: int,
    last_ms: int,
) -> None:
    """Before the first read, and with puts and deletes after it."""
    for cells in (DictCells(), LoggedCells()):
        known: dict[bytes, bytes] = {}
        for some in (before, later):
            for key, time_ms, number, value in some:
                cell = key + PLACE.pack(time_ms, number)
                cells.put(cell, value)
                known.pop(cell, None)
                if value is not None:
                    known[cell] = value
            expected = sorted(
                (cell, value)
                for cell, value in known.items()
                if cell[: -PLACE.size] == stem
                and first_ms <= PLACE.unpack(cell[-PLACE.size :])[0] <= last_ms
            )
            assert cells.under(stem, PLACE.size, first_ms, last_ms) == expected
            assert sorted(cells.items()) == sorted(known.items())
            assert list(cells.range(None, None)) == sorted(known.items())


def test_memory_bytes_includes_groups() -> None:
    cells = LoggedCells()
    for number in range(1_000):
        cells.put(b"%d" % number + PLACE.pack(1, 0), b"value")
    cells.changes("store")
    before = cells.memory_bytes()
    cells.under(b"1", PLACE.size, 0, 9)
    assert cells.memory_bytes() > before
