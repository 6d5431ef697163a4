"""Where the bytes of a store lie: an ordered map. Under Spark a state, in tests a dict."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, Protocol

# So few new keys are put in their places one by one; more are sorted together.
NEW_KEYS_MAX: Final = 32


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
    def __init__(self) -> None:
        self._cells: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._new: list[bytes] = []
        self.get = self._cells.get

    def put(self, key: bytes, value: bytes | None) -> None:
        cells = self._cells
        if value is None:
            cells.pop(key, None)
            return
        if key not in cells:
            self._new.append(key)
        cells[key] = value

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        self._sort()
        keys = self._keys
        first = 0 if low is None else bisect_left(keys, low)
        last = len(keys) if high is None else bisect_left(keys, high)
        # A key that was deleted is still in the list; one that was deleted and put again is there
        # twice, side by side.
        before = None
        for key in keys[first:last]:
            value = self.get(key)
            if value is not None and key != before:
                yield key, value
            before = key

    def size(self) -> int:
        return len(self._cells)

    def _sort(self) -> None:
        if len(self._new) > NEW_KEYS_MAX or len(self._keys) > 2 * len(self._cells) + NEW_KEYS_MAX:
            self._keys = sorted(self._cells)
        else:
            for key in self._new:
                insort(self._keys, key)
        self._new.clear()
