"""Cells in memory, compared with a dict that is sorted for each read."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from ottla.engine.cells import DictCells, LoggedCells
from ottla.engine.segments import SEGMENT_MS_MIN, StoreSegments

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


@given(st.lists(st.lists(st.tuples(stems, times, numbers, st.binary(max_size=2)))), st.booleans())
def test_new_cells_are_put_as_any_others(
    batches: list[list[tuple[bytes, int, int, bytes]]], in_order: bool
) -> None:
    """Also where some are there already, and where all keys are in order."""
    cells, others = LoggedCells(), LoggedCells()
    for batch in batches:
        new = [(key + PLACE.pack(time_ms, number), value) for key, time_ms, number, value in batch]
        cells.put_new(new, [key for key, *_ in batch], PLACE.size)
        others.put_all(new)
        wanted = [(key, time_ms, 5) for key, time_ms, _, _ in batch]
        expected = [others.under(key, PLACE.size, *bounds) for key, *bounds in wanted]
        assert cells.under_each(wanted, PLACE.size) == expected
        if in_order:
            assert list(cells.range(None, None)) == list(others.range(None, None))
        assert sorted(cells.changes("store")) == sorted(others.changes("store"))
        assert dict(cells.items()) == dict(others.items())


def test_cells_that_were_noted_together_expire_with_their_segment() -> None:
    cells = LoggedCells()
    segments = StoreSegments(cells, 2 * SEGMENT_MS_MIN, from_end=PLACE.size)
    batches = [240_000, 240_001], [299_000, 310_000], [309_000, 310_000]
    for number, times_ms in enumerate(batches):
        assert segments.admits(times_ms[-1])
        assert segments.admits_all(times_ms)
        new = [b"a" + PLACE.pack(time_ms, number) for time_ms in times_ms]
        cells.put_new([(cell, b"x") for cell in new], [b"a", b"a"], PLACE.size)
        segments.note_all(new, times_ms)
    assert segments.admits(420_000)
    left = [PLACE.unpack(cell[1:])[0] for cell, _ in cells.items()]
    assert sorted(left) == [309_000, 310_000, 310_000]
    assert sum(value is None for _, _, value in cells.changes("store")) == 3


def test_memory_bytes_includes_groups() -> None:
    cells = LoggedCells()
    for number in range(1_000):
        cells.put(b"%d" % number + PLACE.pack(1, 0), b"value")
    cells.changes("store")
    before = cells.memory_bytes()
    cells.under(b"1", PLACE.size, 0, 9)
    assert cells.memory_bytes() > before
