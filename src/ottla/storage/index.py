"""A segment's sparse indexes, in Kafka's formats: big-endian entries of a fixed size, sorted.

    .index       8 bytes   relative offset i32, position i32: the batch at the position ends with it
    .timeindex  12 bytes   timestamp i64, relative offset i32: no record up to the offset is later

One entry for every `index.interval.bytes` of log. New entries wait in memory and are written when
the segment is rolled, flushed or closed, or when enough have gathered: a crash loses nothing,
because recovery reads what was not flushed and indexes it again. An index is loaded by the first
lookup and may be unloaded at any time; an append needs no loading.
"""

from __future__ import annotations

import errno
import os
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from sys import byteorder

from ottla.storage.files import File, Files

OFFSET_ENTRY = Struct(">ii")
OFFSET_ENTRY_SIZE = 8
TIME_ENTRY = Struct(">qi")
TIME_ENTRY_SIZE = 12
NUMBER_MAX = (1 << 31) - 1  # the largest relative offset or position that an entry holds
PENDING_SIZE_MAX = 64 * 1024  # bytes of entries that may wait in memory


class IndexFile:
    """What both indexes share: the bytes in the file, and those that are not written yet."""

    __slots__ = ("_entry_size", "_files", "path", "pending", "written")

    def __init__(self, files: Files, path: str, entry_size: int, file_size: int) -> None:
        self._files = files
        self.path = path
        self._entry_size = entry_size
        self.written = file_size - file_size % entry_size  # a torn last entry is overwritten
        self.pending = bytearray()

    def create(self) -> None:
        self._files.open(self.path, create=True)
        self.written = 0

    def count(self) -> int:
        return (self.written + len(self.pending)) // self._entry_size

    def save(self) -> None:
        """Write the pending entries; after an error they are still pending."""
        pending = self.pending
        if pending:
            file = self._open()
            if file.pwrite(pending, self.written) != len(pending):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self.written += len(pending)
            self.pending = bytearray()

    def data(self) -> bytes:
        """All entries: the file's, then the pending ones."""
        try:
            stored = self._files.read(self.path)[: self.written] if self.written else b""
        except FileNotFoundError:
            stored = b""
        if len(stored) < self.written:  # another program has cut the file
            self.written = len(stored) - len(stored) % self._entry_size
            stored = stored[: self.written]
        return stored + self.pending

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        size = count * self._entry_size
        if size >= self.written:
            del self.pending[size - self.written :]
            return
        self.pending = bytearray()
        self._open().truncate(size)
        self.written = size

    def tail(self) -> bytes:
        """The last entry, without reading the others; empty if there is none."""
        size = self._entry_size
        if self.pending:
            return bytes(self.pending[-size:])
        if not self.written:
            return b""
        entry = self._open().pread(size, self.written - size)
        return entry if len(entry) == size else b""

    def _open(self) -> File:
        """Create the file if another program has deleted it: an index can always be rebuilt."""
        try:
            return self._files.open(self.path)
        except FileNotFoundError:
            self.written = 0
            return self._files.open(self.path, create=True)


class OffsetIndex:
    """Offset -> position of a batch at or before it."""

    __slots__ = ("_offsets", "_positions", "base_offset", "file")

    def __init__(self, file: IndexFile, base_offset: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions: array[int] | None = None

    def append(self, last_offset: int, position: int) -> None:
        """Ignores what an entry cannot hold: only a damaged batch has such an offset."""
        relative = last_offset - self.base_offset
        if not 0 <= relative <= NUMBER_MAX or position > NUMBER_MAX:
            return
        if self._offsets is not None and self._positions is not None:
            self._offsets.append(relative)
            self._positions.append(position)
        self.file.pending += OFFSET_ENTRY.pack(relative, position)
        if len(self.file.pending) >= PENDING_SIZE_MAX:
            self.save_or_wait()

    def save_or_wait(self) -> None:
        """A full disk is no reason to refuse records: the entries stay pending."""
        try:
            self.file.save()
        except OSError:
            return

    def floor(self, offset: int) -> int:
        """Position of the last entry whose offset is not above `offset`; 0 if there is none."""
        offsets, positions = self._loaded()
        slot = bisect_right(offsets, offset - self.base_offset)
        return positions[slot - 1] if slot else 0

    def floor_position(self, position: int) -> int:
        """The last indexed position that is not above `position`; 0 if there is none."""
        _, positions = self._loaded()
        slot = bisect_right(positions, position)
        return positions[slot - 1] if slot else 0

    def ceiling(self, position: int) -> int | None:
        """Last offset of the first indexed batch at or after `position`; None if there is none."""
        offsets, positions = self._loaded()
        slot = bisect_left(positions, position)
        return self.base_offset + offsets[slot] if slot < len(offsets) else None

    def last(self) -> tuple[int, int]:
        """Last offset and position, read without loading; (base offset, 0) if empty."""
        entry = self.file.tail()
        if not entry:
            return self.base_offset, 0
        relative, position = OFFSET_ENTRY.unpack(entry)
        return self.base_offset + relative, position

    def entries(self) -> list[tuple[int, int]]:
        offsets, positions = self._loaded()
        base = self.base_offset
        return [(base + offset, at) for offset, at in zip(offsets, positions, strict=True)]

    def truncate(self, position: int) -> None:
        """Drop the entries of batches at or after `position`."""
        _, positions = self._loaded()
        self.file.keep(bisect_left(positions, position))
        self.unload()

    def clear(self) -> None:
        self.file.keep(0)
        self.unload()

    def unload(self) -> None:
        self._offsets = self._positions = None

    def resident_size(self) -> int:
        return 0 if self._offsets is None else OFFSET_ENTRY_SIZE * len(self._offsets)

    @property
    def loaded(self) -> bool:
        return self._offsets is not None

    def load(self) -> None:
        numbers = array("i")
        numbers.frombytes(self.file.data())
        if byteorder == "little":
            numbers.byteswap()
        self._offsets, self._positions = numbers[0::2], numbers[1::2]

    def _loaded(self) -> tuple[array[int], array[int]]:
        if self._offsets is None or self._positions is None:
            self.load()
        assert self._offsets is not None
        assert self._positions is not None
        return self._offsets, self._positions


class TimeIndex:
    """Timestamp -> offset; timestamps rise strictly, so that a binary search works."""

    __slots__ = ("_data", "_last", "base_offset", "file")

    def __init__(self, file: IndexFile, base_offset: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self._data: bytes | None = None
        self._last: tuple[int, int] | None = None

    def append(self, timestamp: int, offset: int) -> None:
        """Ignores a timestamp that is not later than all before it: records may be out of order."""
        last_timestamp, last_offset = self.last()
        relative = offset - self.base_offset
        if timestamp <= last_timestamp or offset < last_offset or relative > NUMBER_MAX:
            return
        self.file.pending += TIME_ENTRY.pack(timestamp, relative)
        self._last = (timestamp, offset)
        self._data = None
        if len(self.file.pending) >= PENDING_SIZE_MAX:
            self.save_or_wait()

    def save_or_wait(self) -> None:
        try:
            self.file.save()
        except OSError:
            return

    def last(self) -> tuple[int, int]:
        """The largest timestamp and its offset; (-1, base offset) if empty."""
        if self._last is None:
            entry = self.file.tail()
            if not entry:
                self._last = (-1, self.base_offset)
            else:
                timestamp, relative = TIME_ENTRY.unpack(entry)
                self._last = (timestamp, self.base_offset + relative)
        return self._last

    def floor(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry not later than `timestamp`, as timestamp and offset."""
        data = self._loaded()
        slot = bisect_right(
            range(len(data) // TIME_ENTRY_SIZE),
            timestamp,
            key=lambda at: TIME_ENTRY.unpack_from(data, at * TIME_ENTRY_SIZE)[0],
        )
        if slot == 0:
            return None
        found, relative = TIME_ENTRY.unpack_from(data, (slot - 1) * TIME_ENTRY_SIZE)
        return found, self.base_offset + relative

    def entries(self) -> list[tuple[int, int]]:
        base = self.base_offset
        return [(time, base + at) for time, at in TIME_ENTRY.iter_unpack(self._loaded())]

    def truncate(self, offset: int) -> None:
        """Drop the entries at or after `offset`."""
        count = 0
        for _, at in self.entries():
            if at >= offset:
                break
            count += 1
        self.file.keep(count)
        self.unload()
        self._last = None

    def clear(self) -> None:
        self.file.keep(0)
        self.unload()
        self._last = None

    def unload(self) -> None:
        self._data = None

    def resident_size(self) -> int:
        return 0 if self._data is None else len(self._data)

    def _loaded(self) -> bytes:
        if self._data is None:
            self._data = self.file.data()
        return self._data
