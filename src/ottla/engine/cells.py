"""Where the bytes of a store lie: an ordered map."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

BLOCK_KEYS_MAX: Final = 1_024
TIME_MAX: Final = 2**63 - 1
CELL_MEMORY_BYTES: Final = 180
"""What a cell in a dict takes beside its key and its value, about."""
GROUP_MEMORY_BYTES: Final = 250
"""What the group of a key takes, about."""
_time: Final = struct.Struct(">q").unpack_from
_eight_bytes: Final = struct.Struct(">q").pack


class Cells(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """None deletes."""

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """In the order of the keys; None is open, `high` itself does not belong to it.

        What is put while somebody reads may be seen or not; reading goes on either way.
        """

    def under(
        self, stem: bytes, behind: int, first_ms: int, last_ms: int
    ) -> list[tuple[bytes, bytes]]:
        """The cells of one key of a store whose cells have a time behind the key: those that have
        `behind` bytes behind `stem`, with a time from `first_ms` to `last_ms` in the first eight.
        They come in the order of their keys; times are not negative."""

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """All, in any order."""

    def size(self) -> int:
        """How many there are, about."""

    @property
    def on_disk(self) -> bool:
        """Too many to have something in memory for each."""


class TaskCells(Cells, Protocol):
    """Cells of a task: they know what a batch has changed."""

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        """The last state of each cell that was put in this batch."""


class DictCells:
    """A dict; once somebody has asked for a range, with its keys in order beside it.

    Once somebody has asked for what is under a stem, keys are in groups by their stems as well. A
    store whose cells have a time behind the key asks for nothing else, and is spared the order of
    all keys.
    """

    on_disk = False

    def __init__(self) -> None:
        self._cells: dict[bytes, bytes] = {}
        self._keys: SortedKeys | None = None
        self._groups: dict[bytes, list[bytes]] | None = None
        self._behind_stem = 0
        self.get = self._cells.get

    def put(self, key: bytes, value: bytes | None) -> None:
        cells = self._cells
        if value is None:
            if cells.pop(key, None) is not None:
                self._leave_order(key)
            return
        if key not in cells:
            if self._keys is not None:
                self._keys.add(key)
            if self._groups is not None:
                self._join_group(key, self._groups)
        cells[key] = value

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        if self._keys is None:
            self._keys = SortedKeys(self._cells)
        for key in self._keys.between(low, high):
            value = self.get(key)
            if value is not None:
                yield key, value

    def under(
        self, stem: bytes, behind: int, first_ms: int, last_ms: int
    ) -> list[tuple[bytes, bytes]]:
        groups = self._groups
        if groups is None or self._behind_stem != behind:
            groups = self._group(behind)
        group = groups.get(stem)
        if group is None:
            return []
        cells = self._cells
        if len(group) == 1:
            (key,) = group
            inside = first_ms <= _time(key, len(stem))[0] <= last_ms
            return [(key, cells[key])] if inside else []
        first = bisect_left(group, stem + _eight_bytes(first_ms))
        last = bisect_left(group, behind_time(stem, last_ms), first)
        return [(key, cells[key]) for key in group[first:last]]

    def size(self) -> int:
        return len(self._cells)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self._cells.items()

    def _group(self, behind: int) -> dict[bytes, list[bytes]]:
        made = self._groups = {}
        self._behind_stem = behind
        for key in self._cells:
            self._join_group(key, made)
        return made

    def _join_group(self, key: bytes, groups: dict[bytes, list[bytes]]) -> None:
        stem = key[: -self._behind_stem]
        group = groups.get(stem)
        if group is None:
            groups[stem] = [key]
        elif key > group[-1]:
            group.append(key)  # nearly always: time goes on
        else:
            insort(group, key)

    def _leave_order(self, key: bytes) -> None:
        if self._keys is not None:
            self._keys.remove(key)
        if self._groups is not None:
            stem = key[: -self._behind_stem]
            group = self._groups[stem]
            del group[bisect_left(group, key)]
            if not group:
                del self._groups[stem]


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
            cells, groups = self._cells, self._groups
            if groups is not None and key not in cells:
                self._join_group(key, groups)
            cells[key] = value
        self.changed.add(key)

    def changes(self) -> list[tuple[bytes, bytes | None]]:
        found = [(key, self.get(key)) for key in self.changed]
        self.changed.clear()
        self._weigh(found)
        return found

    def memory_bytes(self) -> int:
        """About: those that changed last are as large as the others."""
        groups = 0 if self._groups is None else len(self._groups)
        cells = len(self._cells) * (CELL_MEMORY_BYTES + self._mean_bytes)
        return int(cells) + groups * GROUP_MEMORY_BYTES

    def _weigh(self, cells: list[tuple[bytes, bytes | None]]) -> None:
        sizes = [len(key) + len(value) for key, value in cells if value is not None]
        if sizes:
            share = min(1.0, len(sizes) / max(len(self._cells), 1))
            share = max(share, 0.01)
            self._mean_bytes += share * (sum(sizes) / len(sizes) - self._mean_bytes)


def behind_time(stem: bytes, time_ms: int) -> bytes:
    """The least bytes behind all keys that have `stem` and a time up to this one."""
    if time_ms >= TIME_MAX:
        return stem + b"\x80"  # times are positive: their first byte is less than this
    return stem + _eight_bytes(max(time_ms + 1, 0))


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
