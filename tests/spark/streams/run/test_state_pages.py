"""The log of pages that Spark keeps of a task's cells."""

from __future__ import annotations

import random

from ottla.spark.streams.run import pages as module
from ottla.spark.streams.run.pages import Change, LoggedCells, Pages


class Spark:
    """What is left of a task in Spark's state."""

    def __init__(self) -> None:
        self.pages: dict[int, bytes] = {}

    def keep(self, written: list[tuple[int, bytes]], removed: list[int]) -> None:
        for number in removed:
            del self.pages[number]
        for number, data in written:
            assert number not in self.pages
            self.pages[number] = data


def loaded(spark: Spark) -> tuple[Pages, dict[str, LoggedCells]]:
    pages = Pages()
    cells: dict[str, LoggedCells] = {}
    for store, key, value in pages.load(spark.pages.items()):
        cells.setdefault(store, LoggedCells()).put(key, value)
    for each in cells.values():
        each.changed.clear()
    return pages, cells


def rows_of(cells: dict[str, LoggedCells]) -> dict[str, dict[bytes, bytes]]:
    found = {name: dict(each.range(None, None)) for name, each in cells.items()}
    return {name: each for name, each in found.items() if each}


def test_cells_tell_what_has_changed_and_its_last_value_only() -> None:
    cells = LoggedCells()
    cells.put(b"a", b"1")
    cells.put(b"a", b"2")
    cells.put(b"b", b"1")
    cells.put(b"b", None)
    assert sorted(cells.changes()) == [(b"a", b"2"), (b"b", None)]
    assert cells.changes() == []


def test_what_was_written_is_read_again_however_often_pages_were_cleaned() -> None:
    draw = random.Random(7)
    spark, pages = Spark(), Pages()
    cells = {"one": LoggedCells(), "two": LoggedCells()}
    for batch in range(400):
        for _ in range(draw.randrange(1, 60)):
            name = draw.choice(["one", "two"])
            key = b"%d" % draw.randrange(200)
            cells[name].put(key, None if draw.random() < 0.3 else b"%d" % batch)
        changes: list[Change] = [(n, *each) for n, c in cells.items() for each in c.changes()]
        spark.keep(*pages.write(changes, cells))
        if batch % 37 == 0:
            again, kept = loaded(spark)
            assert rows_of(kept) == rows_of(cells)
            if draw.random() < 0.5:  # the task moves to another process
                pages, cells = again, {"one": LoggedCells(), "two": LoggedCells(), **kept}
    assert rows_of(loaded(spark)[1]) == rows_of(cells)
    assert len(spark.pages) < 200, "old pages are removed"


def test_pages_of_cells_that_came_and_went_are_removed() -> None:
    """As those of windows do."""
    pages, spark, cells = Pages(), Spark(), {"s": LoggedCells()}
    for batch in range(200):
        for number in range(100):
            cells["s"].put(b"%d-%d" % (batch, number), b"v")
            cells["s"].put(b"%d-%d" % (batch - 2, number), None)
        changes: list[Change] = [("s", *each) for each in cells["s"].changes()]
        spark.keep(*pages.write(changes, cells))
    assert rows_of(loaded(spark)[1]) == rows_of(cells)
    assert len(spark.pages) < 20


def test_many_changes_are_several_pages() -> None:
    pages, spark = Pages(), Spark()
    cells = {"s": LoggedCells()}
    for number in range(40):
        cells["s"].put(b"%d" % number, bytes(module.PAGE_BYTES_MAX // 10))
    changes: list[Change] = [("s", *each) for each in cells["s"].changes()]
    spark.keep(*pages.write(changes, cells))
    assert 4 <= len(spark.pages) <= 5
    assert rows_of(loaded(spark)[1]) == rows_of(cells)
