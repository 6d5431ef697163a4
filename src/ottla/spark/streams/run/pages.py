"""The cells of a task as a log of pages, which is what Spark keeps of them.

Spark's state is asked over a socket, one key at a time; so a page takes all changes of a batch. The
cells themselves are in memory, where the task is at home. Who has lost them reads the pages again,
in order: the last that has a cell is right. Pages whose cells were mostly written again since are
cleaned: what still counts of the oldest ones goes into the next, and they are removed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.spark.streams.cells import DictCells

PAGE_BYTES_MAX: Final = 1024 * 1024
ENTRY_BYTES: Final = 16  # what an entry takes beside its key and its value, about
SLACK_ENTRIES: Final = 1024
"""Nothing is cleaned for less."""

Change = tuple[str, bytes, bytes | None]
"""Which store, which cell, and what is in it now: None if it is gone."""
Place = tuple[str, bytes]


class LoggedCells(DictCells):
    """Cells that know what has changed since they were last asked."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[bytes] = set()

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None or self._keys is not None:
            super().put(key, value)
        else:
            self._cells[key] = value
        self.changed.add(key)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """The last state of each cell that was put."""
        found = [(key, self.get(key)) for key in self.changed]
        self.changed.clear()
        return found


class Pages:
    """Which page has which cell."""

    def __init__(self) -> None:
        self._next = 0
        self._page_of: dict[Place, int] = {}
        self._places: dict[int, list[Place]] = {}
        self._entries = 0

    def load(self, pages: Iterable[tuple[int, bytes]]) -> Iterator[Change]:
        """All cells as they were written; the caller puts them where they belong."""
        for number, data in sorted(pages):
            changes: list[Change] = pickle.loads(data)
            self._note(number, changes)
            self._next = max(self._next, number + 1)
            yield from changes

    def write(
        self, changes: list[Change], cells: dict[str, LoggedCells]
    ) -> tuple[list[tuple[int, bytes]], list[int]]:
        """The pages to be written for these changes, and those to be removed."""
        written = [self._page(each) for each in _portions(changes)]
        removed: list[int] = []
        count = sum(each.size() for each in cells.values())
        while self._entries > 2 * count + SLACK_ENTRIES:
            oldest = min(self._places)
            if any(number == oldest for number, _ in written):
                break
            live = self._clear(oldest, cells)
            written += [self._page(each) for each in _portions(live)]
            removed.append(oldest)
        return written, removed

    def _page(self, changes: list[Change]) -> tuple[int, bytes]:
        number = self._next
        self._next += 1
        self._note(number, changes)
        return number, pickle.dumps(changes, pickle.HIGHEST_PROTOCOL)

    def _note(self, number: int, changes: list[Change]) -> None:
        """A deletion counts as an entry: it must outlive the older pages that have the cell."""
        places = [(store, key) for store, key, _ in changes]
        self._places[number] = places
        self._entries += len(places)
        for place in places:
            self._page_of[place] = number

    def _clear(self, number: int, cells: dict[str, LoggedCells]) -> list[Change]:
        """Forgets the oldest page; what counts of it is returned. A deletion does not: nothing
        older is left that it could be told to."""
        live: list[Change] = []
        places = self._places.pop(number)
        self._entries -= len(places)
        for place in places:
            if self._page_of.get(place) == number:
                del self._page_of[place]
                store, key = place
                value = cells[store].get(key) if store in cells else None
                if value is not None:
                    live.append((store, key, value))
        return live


def _portions(changes: list[Change]) -> Iterator[list[Change]]:
    """As many pages as it takes."""
    portion: list[Change] = []
    size = 0
    for change in changes:
        portion.append(change)
        size += len(change[1]) + len(change[2] or b"") + ENTRY_BYTES
        if size >= PAGE_BYTES_MAX:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
