"""The bytes of a store: an ordered map from key to value."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, Protocol, cast

BLOCK_KEYS_MAX: Final = 1_024
TIME_MAX: Final = 2**63 - 1
CELL_MEMORY_BYTES: Final = 180
"""About what a dict entry takes besides its key and value."""
WEIGHED_MAX: Final = 1_000
"""Changed cells whose sizes are taken."""
GROUP_MEMORY_BYTES: Final = 250
"""About what the group of a key takes."""
_second: Final = itemgetter(1)
_time: Final = struct.Struct(">q").unpack_from
_eight_bytes: Final = struct.Struct(">q").pack


Groups = dict[bytes, bytes | list[bytes]]
"""The keys by stem, in order. Many stems have a single key, which needs no list."""


class Cells(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None) -> None:
        """None deletes."""

    def put_all(self, cells: Sequence[tuple[bytes, bytes | None]]) -> None:
        """`put` for each, in order."""

    def put_new(
        self, cells: Sequence[tuple[bytes, bytes]], stems: Sequence[bytes], behind: int
    ) -> None:
        """`put_all` for cells that are not there yet. The key of each is its stem and `behind`
        bytes."""

    def range(self, low: bytes | None, high: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """From `low` (inclusive) to `high` (exclusive) in key order; None is unbounded.

        A put during the iteration may or may not be seen; the iteration stays valid.
        """

    def under(
        self, stem: bytes, behind: int, first_ms: int, last_ms: int
    ) -> list[tuple[bytes, bytes]]:
        """The cells of one key in a window or session store, in key order: `stem` is the key, and
        `behind` bytes follow it, whose first eight are a time from `first_ms` to `last_ms`. Times
        are not negative."""

    def under_each(
        self, wanted: Iterable[tuple[bytes, int, int]], behind: int
    ) -> list[list[tuple[bytes, bytes]]]:
        """`under` for each stem with its first and last time."""

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        """All cells, in any order."""

    def size(self) -> int:
        """The approximate number of cells."""

    @property
    def on_disk(self) -> bool:
        """True if there are too many cells to keep anything in memory for each."""


class TaskCells(Cells, Protocol):
    """Cells that record which of them the current batch has changed."""

    def changes(self, store: str) -> list[tuple[str, bytes, bytes | None]]:
        """The name of the store, and key and last value of each cell that this batch has put."""


class DictCells:
    """A dict. The first `range` adds an ordered index of all keys, the first `under` an index by
    stem.

    Window and session stores call only `under`, so they never pay for the order of all keys.
    """

    on_disk = False

    def __init__(self) -> None:
        self._cells: dict[bytes, bytes] = {}
        self._keys: SortedKeys | None = None
        self._groups: Groups | None = None
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

    def put_all(self, cells: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in cells:
            self.put(key, value)

    def put_new(
        self, cells: Sequence[tuple[bytes, bytes]], stems: Sequence[bytes], behind: int
    ) -> None:
        self.put_all(cells)

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
        if isinstance(group, bytes):
            inside = first_ms <= _time(group, len(stem))[0] <= last_ms
            return [(group, cells[group])] if inside else []
        first = bisect_left(group, stem + _eight_bytes(first_ms))
        last = bisect_left(group, behind_time(stem, last_ms), first)
        return [(key, cells[key]) for key in group[first:last]]

    def under_each(
        self, wanted: Iterable[tuple[bytes, int, int]], behind: int
    ) -> list[list[tuple[bytes, bytes]]]:
        groups = self._groups
        if groups is None or self._behind_stem != behind:
            groups = self._group(behind)
        cells, group_of, under = self._cells, groups.get, self.under
        found: list[list[tuple[bytes, bytes]]] = []
        for stem, first_ms, last_ms in wanted:
            group = group_of(stem)
            if group is None:
                found.append([])
            elif isinstance(group, bytes):  # as in `under`, without its call
                inside = first_ms <= _time(group, len(stem))[0] <= last_ms
                found.append([(group, cells[group])] if inside else [])
            else:
                found.append(under(stem, behind, first_ms, last_ms))
        return found

    def size(self) -> int:
        return len(self._cells)

    def items(self) -> Iterable[tuple[bytes, bytes]]:
        return self._cells.items()

    def _group(self, behind: int) -> Groups:
        made: Groups = {}
        self._groups = made
        self._behind_stem = behind
        for key in self._cells:
            self._join_group(key, made)
        return made

    def _join_group(self, key: bytes, groups: Groups) -> None:
        group = groups.setdefault(key[: -self._behind_stem], key)
        if group is key:
            return
        if isinstance(group, bytes):
            groups[key[: -self._behind_stem]] = sorted((group, key))
        elif key > group[-1]:
            group.append(key)  # nearly always, because time moves forward
        else:
            insort(group, key)

    def _leave_order(self, key: bytes) -> None:
        if self._keys is not None:
            self._keys.remove(key)
        if self._groups is not None:
            stem = key[: -self._behind_stem]
            group = self._groups[stem]
            if isinstance(group, bytes):
                del self._groups[stem]
                return
            del group[bisect_left(group, key)]
            if len(group) == 1:
                (self._groups[stem],) = group


class LoggedCells(DictCells):
    """Cells in memory that record what has changed since the last call of `changes`."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[bytes, bytes | None] = {}
        self._mean_bytes = 0.0

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None or self._keys is not None:
            super().put(key, value)
        else:
            cells, groups = self._cells, self._groups
            if groups is not None and key not in cells:
                self._join_group(key, groups)
            cells[key] = value
        self.changed[key] = value

    def put_all(self, cells: Sequence[tuple[bytes, bytes | None]]) -> None:
        if self._keys is not None or not all(map(_second, cells)):
            super().put_all(cells)
            return
        groups, here = self._groups, self._cells
        present = cast(Sequence[tuple[bytes, bytes]], cells)
        if groups is None:
            here.update(present)
        else:
            behind = -self._behind_stem
            for key, value in present:
                # A stem's first key, which most are, joins here, without a call.
                if key not in here and groups.setdefault(key[:behind], key) is not key:
                    self._join_group(key, groups)
                here[key] = value
        self.changed.update(present)

    def put_new(
        self, cells: Sequence[tuple[bytes, bytes]], stems: Sequence[bytes], behind: int
    ) -> None:
        groups, here = self._groups, self._cells
        if self._keys is not None or (groups is not None and self._behind_stem != behind):
            self.put_all(cells)
            return
        size = len(here)
        here.update(cells)
        self.changed.update(cells)
        if groups is None:
            return
        if len(here) != size + len(cells):
            self._groups = None  # some were there: the next `under` groups all cells again
            return
        join = groups.setdefault
        for stem, (key, _) in zip(stems, cells, strict=True):
            if join(stem, key) is not key:
                self._join_group(key, groups)

    def changes(self, store: str) -> list[tuple[str, bytes, bytes | None]]:
        found = [(store, key, value) for key, value in self.changed.items()]
        self.changed.clear()
        self._weigh(found)
        return found

    def memory_bytes(self) -> int:
        """An estimate: assumes that the cells changed last are as large as the others."""
        groups = 0 if self._groups is None else len(self._groups)
        cells = len(self._cells) * (CELL_MEMORY_BYTES + self._mean_bytes)
        return int(cells) + groups * GROUP_MEMORY_BYTES

    def _weigh(self, cells: list[tuple[str, bytes, bytes | None]]) -> None:
        every = len(cells) // WEIGHED_MAX + 1
        sizes = [len(key) + len(value) for _, key, value in cells[::every] if value is not None]
        if sizes:
            share = min(1.0, len(sizes) * every / max(len(self._cells), 1))
            share = max(share, 0.01)
            self._mean_bytes += share * (sum(sizes) / len(sizes) - self._mean_bytes)


def behind_time(stem: bytes, time_ms: int) -> bytes:
    """The smallest key after all keys with `stem` and a time up to this one."""
    if time_ms >= TIME_MAX:
        return stem + b"\x80"  # times are positive: their first byte is less than this
    return stem + _eight_bytes(max(time_ms + 1, 0))


class SortedKeys:
    """Keys in order, in blocks of bounded size, so that an insertion moves at most one block.

    The keys of a block are at least its bound and less than the next block's bound.
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
        """A copy, so that the caller may add and remove keys while iterating."""
        first = 0 if low is None else bisect_right(self._bounds, low) - 1
        last = len(self._bounds) if high is None else bisect_left(self._bounds, high)
        found: list[bytes] = []
        for block in self._blocks[first:last]:
            begin = 0 if low is None else bisect_left(block, low)
            end = len(block) if high is None else bisect_left(block, high)
            found.extend(block[begin:end])
        return found
