"""The rows of a table in memory: one Python object for the key and one for the rest.

A row is stored as the record's bytes after a few numbers and is deserialized on demand, which takes
a third of the memory of a dict. A windowed table has a sorted list of rows per key: the big-endian
window in front makes bytes compare in window order.

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

# The overhead of a dict entry, including the dict's free slots: 50 to 100 bytes, measured as the
# growth of the process over a million rows.
ENTRY_BYTES: Final = 80
LIST_BYTES: Final = 88


class RowUpdate(NamedTuple):
    """A record of the topic; `value` None deletes the row."""

    key: Hashable
    value: bytes | None
    timestamp_ms: int
    offset: int
    start_ms: int = 0
    end_ms: int = 0


class StoredRow(NamedTuple):
    key: Hashable
    value: bytes
    timestamp_ms: int
    partition: int
    offset: int
    start_ms: int = 0
    end_ms: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Inclusive bounds for windows, in milliseconds."""

    start_min: int = 0
    start_max: int = BOUND_MAX
    end_min: int = 0
    end_max: int = BOUND_MAX

    def __contains__(self, window: tuple[int, int]) -> bool:
        start, end = window
        return self.start_min <= start <= self.start_max and self.end_min <= end <= self.end_max


ANY: Final = Bounds()


class TableStore(Protocol):
    """One thread calls `apply`; any thread may read."""

    size_bytes: int
    """An estimate of the memory that the rows take."""

    @property
    def count(self) -> int: ...

    def apply(self, changes: Iterable[RowUpdate], partition: int) -> None: ...

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[StoredRow]: ...

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[StoredRow]:
        """A snapshot of all rows, or of those whose key is wanted."""

    def clear(self) -> None: ...


class UnwindowedRows:
    def __init__(self) -> None:
        self._rows: dict[Hashable, bytes] = {}
        self._lock = threading.Lock()
        self.size_bytes = 0

    @property
    def count(self) -> int:
        return len(self._rows)

    def apply(self, changes: Iterable[RowUpdate], partition: int) -> None:
        packed = [
            (
                change.key,
                None
                if change.value is None
                else ROW.pack(change.timestamp_ms, partition, change.offset) + change.value,
            )
            for change in changes
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

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[StoredRow]:
        rows = self._rows
        found = ((key, rows.get(key)) for key in dict.fromkeys(keys))
        return [_stored_row(key, row) for key, row in found if row is not None]

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[StoredRow]:
        with self._lock:
            rows = list(self._rows.items())
        if wanted is None:
            return [_stored_row(key, row) for key, row in rows]
        return [_stored_row(key, row) for key, row in rows if wanted(key)]

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
        self.size_bytes = 0


class WindowedRows:
    """Drops windows that started more than the retention before the newest window."""

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
        """Windows with an earlier start have expired."""
        if self.retention_ms is None:
            return 0
        return max(0, self._newest_ms - self.retention_ms)

    def apply(self, changes: Iterable[RowUpdate], partition: int) -> None:
        packed = [
            (change.key, *_windowed(change, partition), change.start_ms)
            for change in changes
            if change.start_ms >= 0
        ]
        with self._lock:
            for key, window, row, start_ms in packed:
                self._newest_ms = max(self._newest_ms, start_ms)
                self._put(key, window, row)
            # Sweeping only after an eighth of the retention bounds how often a row is examined.
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
        index = bisect_left(rows, window)
        present = index < len(rows) and rows[index].startswith(window)
        if present:
            self.size_bytes -= sys.getsizeof(rows[index]) + 8
            self._count -= 1
        if row is None:
            if present:
                del rows[index]
                self._forget_if_empty(key, rows)
            return
        if present:
            rows[index] = row
        else:
            rows.insert(index, row)
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
                self.size_bytes -= sum(sys.getsizeof(row) + 8 for row in rows[:gone])
                self._count -= gone
                del rows[:gone]
                self._forget_if_empty(key, rows)
        self._swept_ms = self.oldest_ms

    def get(self, keys: Iterable[Hashable], bounds: Bounds = ANY) -> list[StoredRow]:
        with self._lock:
            found = [(key, list(self._rows.get(key, ()))) for key in dict.fromkeys(keys)]
        return list(self._within(found, bounds))

    def scan(
        self, wanted: Callable[[Hashable], bool] | None = None, bounds: Bounds = ANY
    ) -> list[StoredRow]:
        with self._lock:
            found = [(key, list(rows)) for key, rows in self._rows.items()]
        if wanted is not None:
            found = [(key, rows) for key, rows in found if wanted(key)]
        return list(self._within(found, bounds))

    def _within(
        self, found: Iterable[tuple[Hashable, list[bytes]]], bounds: Bounds
    ) -> Iterator[StoredRow]:
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
                    yield StoredRow(key, value, timestamp_ms, partition, offset, start, end)

    def clear(self) -> None:
        with self._lock:
            self._rows = {}
        self.size_bytes = self._count = 0


def _windowed(change: RowUpdate, partition: int) -> tuple[bytes, bytes | None]:
    window = WINDOW.pack(change.start_ms, change.end_ms)
    if change.value is None:
        return window, None
    return window, window + ROW.pack(change.timestamp_ms, partition, change.offset) + change.value


def _stored_row(key: Hashable, row: bytes) -> StoredRow:
    timestamp_ms, partition, offset = ROW.unpack_from(row)
    return StoredRow(key, row[ROW.size :], timestamp_ms, partition, offset)


def _entry_size(key: Hashable, row: bytes) -> int:
    return sys.getsizeof(key) + sys.getsizeof(row) + ENTRY_BYTES
