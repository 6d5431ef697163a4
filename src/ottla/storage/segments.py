"""The segments of one log, in the order of their offsets; the last one is written to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.storage.directory import LogDir
from ottla.storage.log_config import LogConfig
from ottla.storage.residents import Residents
from ottla.storage.segment import Segment, file_name


class Segments:
    __slots__ = ("_bases", "_dir", "_list", "_path", "active", "residents", "size")

    def __init__(
        self, directory: LogDir, path: str, residents: Residents, segments: list[Segment]
    ) -> None:
        self._dir = directory
        self._path = path
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self.residents = residents
        self.active = segments[-1]
        self.size = sum(segment.size for segment in segments)  # bytes of log, without indexes

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, slot: int) -> Segment:
        return self._list[slot]

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    def slot(self, offset: int) -> int:
        """Which segment would hold `offset`; the first one for what is before all of them."""
        found = bisect_right(self._bases, offset)
        return found - 1 if found else 0

    def end_of(self, slot: int, log_end_offset: int) -> int:
        """The offset at which the next segment starts, or at which the log ends."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else log_end_offset

    def make(self, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
        """The files of a new segment; it is not in the log yet."""
        segment = Segment(
            self._dir.files,
            f"{self._path}/{file_name(base_offset)}",
            base_offset,
            residents=self.residents,
            interval=config.index_interval_bytes,
            index_size_max=config.segment_index_bytes,
            created_ms=now_ms,
        )
        segment.create()
        return segment

    def add(self, segment: Segment) -> None:
        self._list.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[Segment]:
        """Out of the log, the oldest first, so that what is left is whole after a crash too."""
        return self._take(0, count)

    def take_from(self, slot: int) -> list[Segment]:
        """Out of the log, the newest first."""
        taken = self._take(slot, len(self._list))
        if self._list:
            self.active = self._list[-1]
        return taken[::-1]

    def _take(self, start: int, end: int) -> list[Segment]:
        taken = self._list[start:end]
        del self._list[start:end], self._bases[start:end]
        self.size -= sum(segment.size for segment in taken)
        return taken

    def replace(self, slot: int, count: int, segment: Segment) -> None:
        """One segment in the place of `count` others, of which the last is not the active one."""
        end = slot + count
        self.size += segment.size - sum(old.size for old in self._list[slot:end])
        self._list[slot:end] = [segment]
        self._bases[slot:end] = [segment.base_offset]

    def discard(self, taken: list[Segment], due_ms: int) -> None:
        """Their files get another name now, and are removed when due."""
        for segment in taken:
            for path in segment.rename_deleted():
                self._dir.remove_later(path, due_ms)

    def release(self) -> None:
        """Close all files and forget all indexes; they come back when asked for."""
        for segment in self._list:
            self.residents.forget(segment)
