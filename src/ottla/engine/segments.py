"""What a windowed store forgets: rows are noted by stretches of time, and let go by them.

Cells are ordered by key, so that nothing in them says which are old. The notes are in memory only:
they are made by one walk through the cells, the first time that something could be old. Cells on
disk are too many for notes: there is a walk for each stretch of time that is over.
"""

from __future__ import annotations

from typing import Final

from ottla.engine.cells import TIME_MAX as TIME_MAX
from ottla.engine.cells import Cells
from ottla.engine.serdes import LONG

SEGMENT_MS_MIN: Final = 60_000  # as in Kafka


class Segments:
    """`from_end`: where the time lies in a cell's key, in bytes before its end."""

    def __init__(self, cells: Cells, retention_ms: int, *, from_end: int) -> None:
        self._cells = cells
        self._retention_ms = retention_ms
        self._from_end = from_end
        self._segment_ms = max(retention_ms // 2, SEGMENT_MS_MIN)
        self._segments: dict[int, set[bytes]] | None = None
        self._first = 0
        self._shows_expired = False
        self.observe(-1)

    def observe(self, time_ms: int) -> None:
        """The largest time that was put. What follows from it is worked out once, here."""
        self.observed_ms = time_ms
        segment = (time_ms - self._retention_ms) // self._segment_ms
        self._admitted_ms = segment * self._segment_ms
        self.oldest_ms = time_ms - self._retention_ms + 1
        """What is older than this is gone, even if it is still there; unless that is shown."""
        if self._shows_expired:
            self.oldest_ms = self._admitted_ms

    def show_expired(self) -> None:
        self._shows_expired = True
        self.observe(self.observed_ms)

    @property
    def newest_ms(self) -> int:
        """Nothing is later; where somebody else fills the cells, anything may be there."""
        return self.observed_ms if self.observed_ms >= 0 else TIME_MAX

    def admits(self, time_ms: int) -> bool:
        """False for what is too old to be put. Moves the time on, and lets old segments go.

        As in Kafka's RocksDB stores a segment takes what comes as long as it is there, though
        nobody reads what is older than `oldest_ms`; but final results of sessions are taken so.
        """
        if time_ms > self.observed_ms:
            self.observe(time_ms)
            first = (time_ms - self._retention_ms + 1) // self._segment_ms
            if first > self._first:
                self._forget(first)
        return time_ms >= self._admitted_ms

    def note(self, cell: bytes, time_ms: int, *, present: bool) -> None:
        if self._segments is not None and present:
            number = time_ms // self._segment_ms
            segment = self._segments.get(number)
            if segment is None:
                segment = self._segments[number] = set()
            segment.add(cell)

    def _forget(self, first: int) -> None:
        self._first = first
        if self._cells.on_disk:
            self._forget_by_walk(first)
            return
        segments = self._segments
        if segments is None:
            segments = self._segments = self._walk()
        for number in [each for each in segments if each < first]:
            for cell in segments.pop(number):
                self._cells.put(cell, None)

    def _forget_by_walk(self, first: int) -> None:
        for cell, _ in self._cells.range(None, None):
            (time_ms,) = LONG.unpack_from(cell, len(cell) - self._from_end)
            if time_ms // self._segment_ms < first:
                self._cells.put(cell, None)

    def _walk(self) -> dict[int, set[bytes]]:
        segments: dict[int, set[bytes]] = {}
        for cell, _ in self._cells.items():
            (time_ms,) = LONG.unpack_from(cell, len(cell) - self._from_end)
            segments.setdefault(time_ms // self._segment_ms, set()).add(cell)
        return segments
