"""Where the bytes of a store lie: an ordered map."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

BLOCK_KEYS_MAX: Final = 1_024
CELL_MEMORY_BYTES: Final = 180
"""What a cell in a dict takes beside its key and its value, about."""


class Cells(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """None deletes."""

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of the keys; None is open, `high` itself does not belong to it.

        What is put while somebody reads may be seen or not; reading goes on either way.
        """

    def size(self) -> int:
        """How many there are, about."""

    @property
    def on_disk(self) -> bool:
        """Too many to have something in memory for each."""


class TaskCells(Cells, Protocol):
    """Cells of a task: they know what a batch has changed."""

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """The last state of each cell that was put in this batch."""

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """All, in any order."""


class DictCells:
    """A dict; once somebody has asked for a range, with its keys in order beside it."""

    on_disk = False

    def __init__(self) -> None:
        self._cells: dict[bytes, bytes] = {}
        self._keys: SortedKeys | None = None
        self.get = self._cells.get

    def put(self, key: bytes, value: bytes | None) -> None:
        cells = self._cells
        if value is None:
            if cells.pop(key, None) is not None and self._keys is not None:
                self._keys.remove(key)
            return
        if self._keys is not None and key not in cells:
            self._keys.add(key)
        cells[key] = value

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self._keys is None:
            self._keys = SortedKeys(self._cells)
        for key in self._keys.between(low, high):
            value = self.get(key)
            if value is not None:
                yield key, value

    def size(self) -> int:
        return len(self._cells)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self._cells.items()


class LoggedCells(DictCells):
    """Cells in memory that know what has changed since they were last asked."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[bytes] = set()
        self._mean_bytes = 0.0

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None or self._keys is not None:
            super().put(key, value)
        else:
            self._cells[key] = value
        self.changed.add(key)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        found = [(key, self.get(key)) for key in self.changed]
        self.changed.clear()
        self._weigh(found)
        return found

    def memory_bytes(self) -> int:
        """About: those that changed last are as large as the others."""
        return int(len(self._cells) * (CELL_MEMORY_BYTES + self._mean_bytes))

    def _weigh(self, cells: list[tuple[bytes, bytes | None]]) -> None:
        sizes = [len(key) + len(value) for key, value in cells if value is not None]
        if sizes:
            share = min(1.0, len(sizes) / max(len(self._cells), 1))
            share = max(share, 0.01)
            self._mean_bytes += share * (sum(sizes) / len(sizes) - self._mean_bytes)


class SortedKeys:
    """Keys in order, in blocks of bounded size: a new one moves no more than a block.

    A block has keys of at least its bound, and less than the next block's bound.
    """

    def __init__(self, keys: Iterable[bytes]) -> None:
        ordered = sorted(keys)
        half = BLOCK_KEYS_MAX // 2
        self._blocks = [ordered[at : at + half] for at in range(0, len(ordered), half)] or [[]]
        self._bounds = [b"", *(block[0] for block in self._blocks[1:])]

    def add(self, key: bytes) -> None:
        place = bisect_right(self._bounds, key) - 1
        block = self._blocks[place]
        insort(block, key)
        if len(block) > BLOCK_KEYS_MAX:
            half = len(block) // 2
            self._blocks.insert(place + 1, block[half:])
            self._bounds.insert(place + 1, block[half])
            del block[half:]

    def remove(self, key: bytes) -> None:
        place = bisect_right(self._bounds, key) - 1
        block = self._blocks[place]
        del block[bisect_left(block, key)]
        if not block and place > 0:
            del self._blocks[place], self._bounds[place]

    def between(self, low: bytes | None, high: bytes | None) -> list[bytes]:
        """A copy: whoever goes through it may add and remove."""
        first = 0 if low is None else bisect_right(self._bounds, low) - 1
        last = len(self._bounds) if high is None else bisect_left(self._bounds, high)
        found: list[bytes] = []
        for block in self._blocks[first:last]:
            begin = 0 if low is None else bisect_left(block, low)
            end = len(block) if high is None else bisect_left(block, high)
            found.extend(block[begin:end])
        return found
