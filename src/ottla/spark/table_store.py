"""The rows of a table, in memory: one Python object for the key and one for all of the rest.

A row is kept as it was written, behind a few numbers; it is decoded when it is asked for. That is a
third of what the same row takes as a dict. Rows of a windowed table are lists by key, in the order
of their windows: the numbers in front make bytes compare as windows do.

    row          timestamp, partition, offset, value
    windowed     window's start, window's end, timestamp, partition, offset, value
"""

from __future__ import annotations

import struct
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

ROW: Final = struct.Struct(">qiq")
WINDOW: Final = struct.Struct(">qq")
BOUND_MAX: Final = 2**63 - 1

# What an entry of a dict takes beside its two objects, with the room that a dict keeps free: 50 to
# 100 bytes, measured as the growth of the process over a million rows.
ENTRY_BYTES: Final = 80
LIST_BYTES: Final = 88


class Change(NamedTuple):
    """A row as it is read from the topic; `value` None deletes it."""

    key: Hashable
    value: bytes | None
    timestamp_ms: int
    offset: int
    start_ms: int = 0
    end_ms: int = 0


class Kept(NamedTuple):
    key: Hashable
    value: bytes
    timestamp_ms: int
    partition: int
    offset: int
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of windows, both ends included, in milliseconds."""

    start_min: int = 0
    start_max: int = BOUND_MAX
    end_min: int = 0
    end_max: int = BOUND_MAX

    def __contains__(self, window: tuple[int, int]) -> bool:
        start, end = window
        return self.start_min <= start <= self.start_max and self.end_min <= end <= self.end_max


ANY: Final = Bounds()


class Store(Protocol):
    """One thread applies, others ask."""

    size_bytes: int
    """About: what the process has grown by."""

    @property
    def count(self) -> int: ...

    def apply(self, changes: Iterable[Change], partition: int) -> None: ...

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[Kept]: ...

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[Kept]:
        """All rows as they are at one moment, or those whose key is wanted."""

    def clear(self) -> None: ...


class Rows:
    def __init__(self) -> None:
        self._rows: dict[Hashable, bytes] = {}
        self._lock = threading.Lock()
        self.size_bytes = 0

    @property
    def count(self) -> int:
        return len(self._rows)

    def apply(self, changes: Iterable[Change], partition: int) -> None:
        packed = [
            (
                each.key,
                None
                if each.value is None
                else ROW.pack(each.timestamp_ms, partition, each.offset) + each.value,
            )
            for each in changes
        ]
        rows = self._rows
        grown = 0
        with self._lock:
            for key, row in packed:
                before = rows.pop(key, None) if row is None else rows.get(key)
                if before is not None:
                    grown -= _entry_size(key, before)
                if row is not None:
                    rows[key] = row
                    grown += _entry_size(key, row)
        self.size_bytes += grown

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[Kept]:
        rows = self._rows
        found = ((key, rows.get(key)) for key in dict.fromkeys(keys))
        return [_kept(key, row) for key, row in found if row is not None]

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[Kept]:
        with self._lock:
            rows = list(self._rows.items())
        if wanted is None:
            return [_kept(key, row) for key, row in rows]
        return [_kept(key, row) for key, row in rows if wanted(key)]

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
        self.size_bytes = 0


class WindowedRows:
    """Windows that began longer ago than the retention, by the newest window seen, are dropped."""

    def __init__(self, retention_ms: int | None = None) -> None:
        self._rows: dict[Hashable, list[bytes]] = {}
        self._lock = threading.Lock()
        self.retention_ms = retention_ms
        self._newest_ms = 0
        self._swept_ms = 0
        self._count = 0
        self.size_bytes = 0

    @property
    def count(self) -> int:
        return self._count

    @property
    def oldest_ms(self) -> int:
        """Windows that began before are gone."""
        if self.retention_ms is None:
            return 0
        return max(0, self._newest_ms - self.retention_ms)

    def apply(self, changes: Iterable[Change], partition: int) -> None:
        packed = [
            (each.key, *_windowed(each, partition), each.start_ms)
            for each in changes
            if each.start_ms >= 0
        ]
        with self._lock:
            for key, window, row, start_ms in packed:
                self._newest_ms = max(self._newest_ms, start_ms)
                self._put(key, window, row)
            # Each row is looked at a few times in its life, however often windows move on.
            if self.oldest_ms > self._swept_ms + (self.retention_ms or 0) // 8:
                self._sweep()

    def _put(self, key: Hashable, window: bytes, row: bytes | None) -> None:
        rows = self._rows.get(key)
        if rows is None:
            if row is not None:
                self._rows[key] = [row]
                self.size_bytes += _entry_size(key, row) + LIST_BYTES
                self._count += 1
            return
        place = bisect_left(rows, window)
        present = place < len(rows) and rows[place].startswith(window)
        if present:
            self.size_bytes -= sys.getsizeof(rows[place]) + 8
            self._count -= 1
        if row is None:
            if present:
                del rows[place]
                self._forget_if_empty(key, rows)
            return
        if present:
            rows[place] = row
        else:
            rows.insert(place, row)
        self.size_bytes += sys.getsizeof(row) + 8
        self._count += 1

    def _forget_if_empty(self, key: Hashable, rows: Sequence[bytes]) -> None:
        if not rows:
            del self._rows[key]
            self.size_bytes -= sys.getsizeof(key) + ENTRY_BYTES + LIST_BYTES - 8

    def _sweep(self) -> None:
        first = WINDOW.pack(self.oldest_ms, 0)
        for key in list(self._rows):
            rows = self._rows[key]
            gone = bisect_left(rows, first)
            if gone:
                self.size_bytes -= sum(sys.getsizeof(each) + 8 for each in rows[:gone])
                self._count -= gone
                del rows[:gone]
                self._forget_if_empty(key, rows)
        self._swept_ms = self.oldest_ms

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[Kept]:
        with self._lock:
            found = [(key, list(self._rows.get(key, ()))) for key in dict.fromkeys(keys)]
        return list(self._within(found, bounds))

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[Kept]:
        with self._lock:
            found = [(key, list(rows)) for key, rows in self._rows.items()]
        if wanted is not None:
            found = [(key, rows) for key, rows in found if wanted(key)]
        return list(self._within(found, bounds))

    def _within(
        self, found: Iterable[tuple[Hashable, list[bytes]]], bounds: Bounds
    ) -> Iterator[Kept]:
        oldest_ms = max(bounds.start_min, self.oldest_ms)
        first = WINDOW.pack(oldest_ms, 0)
        for key, rows in found:
            for row in rows[bisect_left(rows, first) :]:
                start, end = WINDOW.unpack_from(row)
                if start > bounds.start_max:
                    break
                if (start, end) in bounds:
                    timestamp_ms, partition, offset = ROW.unpack_from(row, WINDOW.size)
                    value = row[WINDOW.size + ROW.size :]
                    yield Kept(key, value, timestamp_ms, partition, offset, start, end)

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
        self.size_bytes = self._count = 0


def _windowed(change: Change, partition: int) -> tuple[bytes, bytes | None]:
    window = WINDOW.pack(change.start_ms, change.end_ms)
    if change.value is None:
        return window, None
    return window, window + ROW.pack(change.timestamp_ms, partition, change.offset) + change.value


def _kept(key: Hashable, row: bytes) -> Kept:
    timestamp_ms, partition, offset = ROW.unpack_from(row)
    return Kept(key, row[ROW.size :], timestamp_ms, partition, offset)


def _entry_size(key: Hashable, row: bytes) -> int:
    return sys.getsizeof(key) + sys.getsizeof(row) + ENTRY_BYTES
