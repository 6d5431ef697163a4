"""Where the bytes of a store lie: an ordered map."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

BLOCK_KEYS_MAX: Final = 1_024


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


class DictCells:
    """A dict; once somebody has asked for a range, with its keys in order beside it."""

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
