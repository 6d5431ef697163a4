"""One segment of a log: a file of batches, and the indexes that lead into it.

    00000000000000012345.log .index .timeindex .txnindex   the name is the first record's offset

Only the last segment of a log, the active one, is written to. It keeps the positions of its latest
batches in memory, so that a fetch of a consumer that keeps up needs neither index nor disk.
"""

from __future__ import annotations

import errno
import logging
import os
from array import array
from bisect import bisect_left

from ottla.records.batch import BatchHeader
from ottla.records.record import read_records
from ottla.slices import FileSlice
from ottla.storage import scan
from ottla.storage.checkpoints import DamagedError
from ottla.storage.files import File, Files
from ottla.storage.index import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    IndexFile,
    OffsetIndex,
    TimeIndex,
)
from ottla.storage.open_segment_cache import OpenSegmentCache
from ottla.storage.transaction_index import TransactionIndex

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"
SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

RELATIVE_OFFSET_MAX = (1 << 31) - 1  # the largest that an index entry can hold
RECENT_BATCHES_MAX = 256  # batches whose positions the active segment keeps in memory
UNKNOWN = -2

_log = logging.getLogger("ottla.storage")

TimestampAndOffset = tuple[int, int, int]  # offset, timestamp, leader epoch


def file_name(offset: int) -> str:
    """Twenty digits, so that names sort as their offsets do."""
    return f"{offset:020d}"


class LogSegment:
    __slots__ = (
        "_files",
        "_open_segments",
        "_recent_floor",
        "_recent_lasts",
        "_recent_positions",
        "_unindexed",
        "base_offset",
        "broken",
        "created_ms",
        "file",
        "first_timestamp",
        "index_full",
        "index_size_max",
        "index_used",
        "interval",
        "log_path",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "path",
        "size",
        "time_index",
        "transactions",
        "used",
    )

    def __init__(
        self,
        files: Files,
        path: str,
        base_offset: int,
        *,
        open_segments: OpenSegmentCache,
        interval: int,
        index_size_max: int,
        created_ms: int,
        size: int = 0,
        index_size: int = 0,
        time_index_size: int = 0,
        transactions_size: int = 0,
        ending: str = "",
    ) -> None:
        self._files = files
        self._open_segments = open_segments
        self.path = path  # without a suffix
        self.log_path = path + LOG_SUFFIX + ending  # `.cleaned` for the cleaner's files
        self.base_offset = base_offset
        self.size = size
        self.interval = interval
        self.index_size_max = index_size_max
        self.created_ms = created_ms
        self.file: File | None = None  # open while in use: see OpenSegmentCache
        self.used = False
        self.index_used = False
        self.index_full = False
        self.broken = False  # the log file itself is damaged: rebuilding the index does not help
        index_path = path + INDEX_SUFFIX + ending
        index = IndexFile(files, index_path, OFFSET_ENTRY_SIZE, index_size)
        time_path = path + TIME_INDEX_SUFFIX + ending
        time_index = IndexFile(files, time_path, TIME_ENTRY_SIZE, time_index_size)
        self.offset_index = OffsetIndex(index, base_offset)
        self.time_index = TimeIndex(time_index, base_offset)
        self.transactions = TransactionIndex(
            files, path + TRANSACTION_INDEX_SUFFIX + ending, transactions_size
        )
        # UNKNOWN until first used: else a start would read every segment.
        self.max_timestamp = UNKNOWN if size else -1
        self.max_timestamp_offset = base_offset
        self.first_timestamp = UNKNOWN if size else -1
        self._unindexed = 0  # bytes since the last index entry
        self._recent_floor = (1 << 63) - 1 if size else base_offset - 1
        self._recent_lasts = array("q")
        self._recent_positions = array("q")

    def __repr__(self) -> str:
        return f"LogSegment({self.path}, size={self.size})"

    def create(self) -> None:
        """Create the log file. One that is left over from a crash is truncated, here and below."""
        self.file = self._files.open(self.log_path, create=True)
        self._open_segments.opened(self)

    def create_indexes(self) -> None:
        """With the first batch only, as in Kafka: creating files is most of creating a topic."""
        self.offset_index.file.create()
        self.time_index.file.create()

    def open_file(self) -> File:
        file = self.file
        if file is None:
            file = self.file = self._files.open(self.log_path)
            self._open_segments.opened(self)
        self.used = True
        return file

    # Writing

    def append(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """HOT. Write all of `data`, the batches of `headers`; OSError if nothing was written."""
        file = self.file
        if file is None:
            file = self.open_file()
        self.used = True
        position = self.size
        if position == 0:
            self.create_indexes()
        # A torn write is cut off at once: readers go by `size`, which has not changed, and the next
        # append must not follow half a batch.
        try:
            written = file.pwrite(data, position)
        except OSError:
            file.truncate(position)
            raise
        if written != len(data):
            file.truncate(position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        if position == 0:
            self.first_timestamp = max([header.max_timestamp for header in headers])
        for header in headers:
            self._note(header, position)
            position += header.size
        self.size = position

    def _note(self, header: BatchHeader, position: int) -> None:
        """HOT. Enter a batch at `position` into the indexes and the recent positions."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self._unindexed > self.interval:
            self._index(last_offset, position)
        self._unindexed += header.size
        # Half of them is dropped at a time: deleting one per batch would move the array each time.
        lasts = self._recent_lasts
        lasts.append(last_offset)
        self._recent_positions.append(position)
        if len(lasts) > RECENT_BATCHES_MAX:
            half = RECENT_BATCHES_MAX // 2
            self._recent_floor = lasts[half - 1]
            del lasts[:half], self._recent_positions[:half]

    def _index(self, last_offset: int, position: int) -> None:
        self.offset_index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self.max_timestamp_offset)
        self._unindexed = 0
        # `close_indexes` adds one more entry to the time index: it must have room for that.
        limit = self.index_size_max
        self.index_full = (self.offset_index.file.count() + 1) * OFFSET_ENTRY_SIZE > limit or (
            self.time_index.file.count() + 2
        ) * TIME_ENTRY_SIZE > limit

    def close_indexes(self) -> None:
        """Enter the largest timestamp as the time index's last entry: retention goes by it."""
        timestamp, offset = self.largest()
        if timestamp >= 0:
            self.time_index.append(timestamp, offset)
        self.save_indexes()

    def save_indexes(self) -> None:
        self.offset_index.file.save()
        self.time_index.file.save()
        self.transactions.save()

    def close_indexes_or_wait(self) -> None:
        """Entries for which the disk has no room stay pending until the next flush."""
        try:
            self.close_indexes()
        except OSError as error:
            _log.warning("%s: indexes not written yet: %s", self.path, error)

    def become_inactive(self) -> None:
        self._recent_floor = (1 << 63) - 1
        del self._recent_lasts[:], self._recent_positions[:]
        self.close_indexes_or_wait()

    # Reading

    def read(
        self, offset: int, size_max: int, end: int, whole_first_batch: bool
    ) -> FileSlice | None:
        """HOT. The batches from the one that holds `offset` up to position `end`."""
        position = self.position_of(offset)
        size = end - position
        if size <= 0:
            return None
        file = self.file
        if file is None:
            file = self.open_file()
        self.used = True
        if size > size_max:
            first = scan.batch_size(file, position, self.size)
            if first > size_max:
                return FileSlice(file, position, first) if whole_first_batch else None
            size = max(first, self.border(position + size_max) - position)
        return FileSlice(file, position, size)

    def position_of(self, offset: int) -> int:
        """HOT. The position of the first batch that ends at or after `offset`; else the size."""
        if offset > self._recent_floor:
            slot = bisect_left(self._recent_lasts, offset)
            positions = self._recent_positions
            return positions[slot] if slot < len(positions) else self.size
        file = self.file
        if file is None:
            file = self.open_file()
        self.used = True
        position = self._floor(offset)
        try:
            return scan.scan_to_offset(file, offset, position, self.size)
        except DamagedError as damage:
            if position == 0 or self.broken:
                raise
            # Either the index is wrong or the log: walking the log from its start shows which.
            if not self.rebuild_indexes(str(damage)):
                raise
            return scan.scan_to_offset(file, offset, self._floor(offset), self.size)

    def _floor(self, offset: int) -> int:
        position = self._loaded_index().floor(offset)
        return position if 0 <= position < self.size else 0

    def _loaded_index(self) -> OffsetIndex:
        index = self.offset_index
        if not index.loaded:
            index.load()
            self._open_segments.indexed(self)
        self.index_used = True
        return index

    def border(self, position: int) -> int:
        """The nearest batch position at or before `position` that is known without reading."""
        recent = self._recent_positions
        if recent and position >= recent[0]:
            slot = bisect_left(recent, position + 1)
            return recent[slot - 1]
        # A damaged index may have negative positions, which no file can be read at.
        return max(self._loaded_index().floor_position(position), 0)

    def offset_after(self, position: int) -> int | None:
        """The nearest offset above all batches before `position` that is known without reading;
        None if that is the segment's end."""
        recent = self._recent_positions
        if recent and position > recent[0]:
            return self._recent_lasts[bisect_left(recent, position) - 1] + 1
        return self._loaded_index().ceiling(position)

    def header_at(self, file: File, position: int) -> BatchHeader:
        for header in scan.headers(file, position, self.size):
            return header
        raise DamagedError(f"no batch at position {position}, where the segment ends")

    def next_offset(self) -> int:
        """The offset after the last record, found from the last index entry on.

        DamagedError if the batches do not end where the file does.
        """
        if not self.size:
            return self.base_offset
        indexed_offset, position = self.offset_index.last()
        file = self.open_file()
        if not 0 <= position < self.size:
            raise DamagedError(f"the index leads to position {position}")
        next_offset = self.base_offset
        for header in scan.headers(file, position, self.size):
            if header.position == position and position and header.base_offset > indexed_offset:
                raise DamagedError("the index is not that of this log")
            self.check_offsets(header, next_offset)
            next_offset = header.next_offset
            self._unindexed = header.position + header.size - position
        self._recent_floor = next_offset - 1
        return next_offset

    def check_offsets(self, header: BatchHeader, next_offset: int) -> None:
        """DamagedError if a batch cannot have this offset, which no checksum covers."""
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise DamagedError(f"offset {header.base_offset} after {next_offset - 1}")
        if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise DamagedError(f"offset {header.last_offset} is beyond the segment")

    # Time

    def largest(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the first batch with it."""
        if self.max_timestamp == UNKNOWN:
            self.max_timestamp, self.max_timestamp_offset = self._read_largest()
        return self.max_timestamp, self.max_timestamp_offset

    def _read_largest(self) -> tuple[int, int]:
        """The last entry of the time index, if the log confirms it: retention deletes by it."""
        timestamp, offset = self.time_index.last()
        if timestamp >= 0 and self._is_confirmed(timestamp, offset):
            return timestamp, offset
        if self.max_timestamp == UNKNOWN and not self.broken:
            self.rebuild_indexes("the time index does not fit the log")
        if self.max_timestamp == UNKNOWN:
            return -1, self.base_offset
        return self.max_timestamp, self.max_timestamp_offset

    def retention_timestamp(self) -> int:
        """The timestamp that retention goes by: the largest, or else the file's own."""
        timestamp = self.largest()[0]
        return timestamp if timestamp >= 0 else self._files.modified_ms(self.log_path)

    def first_batch_timestamp(self) -> int:
        """The first batch's largest timestamp, by which segment.ms measures age."""
        if self.first_timestamp == UNKNOWN:
            try:
                self.first_timestamp = self.header_at(self.open_file(), 0).max_timestamp
            except DamagedError:  # readers report it; it is no reason to refuse a producer
                self.first_timestamp = -1
        return self.first_timestamp

    def find_time(self, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from `start_offset` on with a timestamp at or after `timestamp`."""
        file = self.open_file()
        position = self._time_position(timestamp, start_offset)
        for header in scan.headers(file, position, self.size):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for found in self._records(file, header):
                if found[1] >= timestamp and found[0] >= start_offset:
                    return found
        return None

    def _time_position(self, timestamp: int, start_offset: int) -> int:
        """Where to start: all batches before are earlier than `timestamp` or `start_offset`."""
        entry = self.time_index.floor(timestamp)
        if entry is not None and not self._is_confirmed(*entry):
            entry = None
            if not self.broken and self.rebuild_indexes("the time index does not fit the log"):
                entry = self.time_index.floor(timestamp)
        return self.position_of(start_offset if entry is None else max(entry[1], start_offset))

    def _is_confirmed(self, timestamp: int, offset: int) -> bool:
        """True if the log confirms an entry of the time index."""
        if offset < self.base_offset:
            return False
        try:
            position = self.position_of(offset)
            if position >= self.size:
                return False
            header = self.header_at(self.open_file(), position)
        except DamagedError:
            return False
        return header.max_timestamp == timestamp and header.last_offset == offset

    def find_largest(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp."""
        timestamp, offset = self.largest()
        if timestamp < 0:
            return None
        file = self.open_file()
        header = self.header_at(file, self.position_of(offset))
        for found in self._records(file, header):
            if found[1] == timestamp:
                return found
        return self._largest_left(file)

    def _largest_left(self, file: File) -> TimestampAndOffset | None:
        """The same if the cleaner has left only the header of the batch that had it."""
        best: TimestampAndOffset | None = None
        for header in scan.headers(file, 0, self.size):
            if best is None or header.max_timestamp > best[1]:
                for found in self._records(file, header):
                    if best is None or found[1] > best[1]:
                        best = found
        return best

    def _records(self, file: File, header: BatchHeader) -> list[TimestampAndOffset]:
        data = file.pread(header.size, header.position)
        header.position = 0
        epoch = header.leader_epoch
        return [(record.offset, record.timestamp, epoch) for record in read_records(data, header)]

    # Changing what is there

    def truncate(self, offset: int) -> None:
        """Cut off the batches from the one that holds `offset` on."""
        position = self.position_of(offset)
        file = self.open_file()
        file.truncate(position)
        self.size = position
        self.offset_index.truncate(position)
        self.time_index.truncate(offset)
        self.transactions.truncate(offset)
        self.forget_recent(offset)
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last()
        start = self.offset_index.floor(self.max_timestamp_offset) if position else 0
        try:
            for header in scan.headers(file, start, position):
                self.check_offsets(header, self.base_offset)
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp = header.max_timestamp
                    self.max_timestamp_offset = header.last_offset
        except DamagedError as damage:  # too late to fail: the end is already cut off
            _log.error("%s: %s", self.path, damage)
        if position == 0:
            self.first_timestamp = -1

    def forget_recent(self, next_offset: int) -> None:
        self._recent_floor = next_offset - 1
        del self._recent_lasts[:], self._recent_positions[:]
        self._unindexed = self.size - self.offset_index.last()[1]
        self.index_full = False

    def clear_indexes(self) -> None:
        self.offset_index.clear()
        self.time_index.clear()
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self._unindexed = 0

    def note_scanned(self, header: BatchHeader) -> None:
        """Enter a batch that was there before: `_note` without the recent positions."""
        position = header.position
        if position == 0:
            self.first_timestamp = header.max_timestamp
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self._unindexed > self.interval:
            self._index(last_offset, position)
        self._unindexed += header.size

    def rebuild_indexes(self, why: str) -> bool:
        """Rebuild offset and time index from the batch headers; False if the log is damaged.

        A damaged log keeps its index, which may still lead to batches behind the damage.
        """
        end = self._walkable()
        if end < self.size:
            self.broken = True
            if self.offset_index.file.count():
                return False
        _log.warning("%s: rebuilding the indexes from the log: %s", self.path, why)
        self.clear_indexes()
        for header in scan.headers(self.open_file(), 0, end):
            self.note_scanned(header)
        self.offset_index.save_or_wait()
        self.time_index.save_or_wait()
        return not self.broken

    def _walkable(self) -> int:
        """The position up to which the batches can be followed from the start."""
        position, next_offset = 0, self.base_offset
        try:
            for header in scan.headers(self.open_file(), 0, self.size):
                self.check_offsets(header, next_offset)
                next_offset = header.next_offset
                position = header.position + header.size
        except DamagedError as damage:
            _log.error("%s: %s", self.path, damage)
        return position

    def index_size(self) -> int:
        return self.offset_index.resident_size() + self.time_index.resident_size()

    def unload_indexes(self) -> None:
        self.offset_index.unload()
        self.time_index.unload()
        self.index_used = False

    def rename_deleted(self) -> list[str]:
        """Rename the files for later deletion. The log file first: without it the rest is void,
        and a start deletes it."""
        self._open_segments.forget(self)
        renamed = []
        for suffix in SUFFIXES:
            path = self.path + suffix
            try:
                self._files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
        return renamed
