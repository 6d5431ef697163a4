"""The segments of one log, in the order of their offsets; the last one is the active one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.storage.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_segment import LogSegment, file_name
from ottla.storage.open_segment_cache import OpenSegmentCache


class LogSegments:
    __slots__ = ("_bases", "_dir", "_list", "_path", "active", "open_segments", "size")

    def __init__(
        self,
        directory: LogDir,
        path: str,
        open_segments: OpenSegmentCache,
        segments: list[LogSegment],
    ) -> None:
        self._dir = directory
        self._path = path
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self.open_segments = open_segments
        self.active = segments[-1]
        self.size = sum(segment.size for segment in segments)  # bytes of log, without indexes

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._list)

    def __getitem__(self, slot: int) -> LogSegment:
        return self._list[slot]

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    def slot(self, offset: int) -> int:
        """The index of the segment that would hold `offset`; 0 if it is before all of them."""
        found = bisect_right(self._bases, offset)
        return found - 1 if found else 0

    def end_of(self, slot: int, log_end_offset: int) -> int:
        """The base offset of the next segment, or the end offset of the log."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else log_end_offset

    def create_segment(self, base_offset: int, config: LogConfig, now_ms: int) -> LogSegment:
        """Create the files of a new segment, which is not in the log yet."""
        segment = LogSegment(
            self._dir.files,
            f"{self._path}/{file_name(base_offset)}",
            base_offset,
            open_segments=self.open_segments,
            interval=config.index_interval_bytes,
            index_size_max=config.segment_index_bytes,
            created_ms=now_ms,
        )
        segment.create()
        return segment

    def add(self, segment: LogSegment) -> None:
        assert not self._bases or self._bases[-1] < segment.base_offset  # `slot` bisects them
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[LogSegment]:
        """Take the first `count` segments out of the log, in the order in which to delete them.

        Oldest first: a crash halfway leaves a log that starts later, not one with a hole.
        """
        return self._take(0, count)

    def take_from(self, slot: int) -> list[LogSegment]:
        """Take the segments from `slot` on out of the log: newest first, for the same reason."""
        taken = self._take(slot, len(self._list))
        if self._list:
            self.active = self._list[-1]
        return taken[::-1]

    def _take(self, start: int, end: int) -> list[LogSegment]:
        taken = self._list[start:end]
        del self._list[start:end], self._bases[start:end]
        self.size -= sum(segment.size for segment in taken)
        return taken

    def replace(self, slot: int, count: int, segment: LogSegment) -> None:
        """Put one segment in the place of `count` others, none of which is the active one."""
        end = slot + count
        assert end < len(self._list)  # the active segment is being written to
        assert segment.base_offset == self._bases[slot]  # else no segment has the offsets before it
        self.size += segment.size - sum(old.size for old in self._list[slot:end])
        self._list[slot:end] = [segment]
        self._bases[slot:end] = [segment.base_offset]

    def discard(self, taken: list[LogSegment], due_ms: int) -> None:
        """Rename the files of `taken` now, and have them deleted when due."""
        for segment in taken:
            for path in segment.rename_deleted():
                self._dir.remove_later(path, due_ms)

    def release(self) -> None:
        """Close all files and unload all indexes; the next read opens them again."""
        for segment in self._list:
            self.open_segments.forget(segment)
