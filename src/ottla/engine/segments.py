"""The retention of window and session stores: cells are grouped by segments of time, and expire by
segment.

Cells are ordered by key, which does not show which ones are old. The segments' index is in memory
only: one scan builds it, the first time that a segment may have expired. Cells on disk are too many
for an index: each expired segment costs a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from ottla.engine.cells import TIME_MAX as TIME_MAX
from ottla.engine.cells import Cells
from ottla.engine.windowed_serdes import LONG

SEGMENT_MS_MIN: Final = 60_000  # as in Kafka


class StoreSegments:
    """`from_end`: the position of the time in a cell's key, in bytes from its end."""

    def __init__(self, cells: Cells, retention_ms: int, *, from_end: int) -> None:
        self._cells = cells
        self._retention_ms = retention_ms
        self._from_end = from_end
        self._segment_ms = max(retention_ms // 2, SEGMENT_MS_MIN)
        self._segments: dict[int, set[bytes]] | None = None
        self._runs: dict[int, list[Sequence[bytes]]] = {}
        """Cells of segments that were noted together."""
        self._first = 0
        self._shows_expired = False
        self.observe(-1)

    def observe(self, time_ms: int) -> None:
        """Sets the observed stream time and computes the bounds that depend on it."""
        self.observed_ms = time_ms
        segment = (time_ms - self._retention_ms) // self._segment_ms
        self._admitted_ms = segment * self._segment_ms
        self.oldest_ms = time_ms - self._retention_ms + 1
        """Older cells are not returned even if they still exist, unless expired ones are shown."""
        if self._shows_expired:
            self.oldest_ms = self._admitted_ms

    def show_expired(self) -> None:
        self._shows_expired = True
        self.observe(self.observed_ms)

    @property
    def newest_ms(self) -> int:
        """No cell is later. Unknown (the maximum) where the cells are filled from a changelog."""
        return self.observed_ms if self.observed_ms >= 0 else TIME_MAX

    def admits(self, time_ms: int) -> bool:
        """False if this time has expired. Advances the stream time and drops expired segments.

        As in Kafka's RocksDB stores, a segment accepts puts while it exists, even older ones than
        `oldest_ms`, which reads do not return; the final results of sessions depend on that.
        """
        if time_ms > self.observed_ms:
            self.observe(time_ms)
            first = self._first_at(time_ms)
            if first > self._first:
                self._forget(first)
        return time_ms >= self._admitted_ms

    def admits_all(self, times_ms: Sequence[int]) -> bool:
        """Like `admits` for one after the other, where all are admitted and nothing expires. If
        False, it has changed nothing: some may not be admitted, or cells expire in between."""
        newest_ms = max(times_ms)
        if newest_ms > self.observed_ms and self._first_at(newest_ms) > self._first:
            return False
        observed_ms = self.observed_ms
        self.observe(max(newest_ms, observed_ms))
        if min(times_ms) >= self._admitted_ms:
            return True
        self.observe(observed_ms)
        return False

    def _first_at(self, time_ms: int) -> int:
        return (time_ms - self._retention_ms + 1) // self._segment_ms

    def note(self, cell: bytes, time_ms: int, *, present: bool) -> None:
        if self._segments is not None and present:
            number = time_ms // self._segment_ms
            segment = self._segments.get(number)
            if segment is None:
                segment = self._segments[number] = set()
            segment.add(cell)

    def note_all(self, cells: Sequence[bytes], times_ms: Sequence[int]) -> None:
        """`note` for cells that are present and not noted yet."""
        if self._segments is None or not cells:
            return
        first, last = min(times_ms) // self._segment_ms, max(times_ms) // self._segment_ms
        if first == last:
            self._runs.setdefault(first, []).append(cells)
            return
        for cell, time_ms in zip(cells, times_ms, strict=True):
            self.note(cell, time_ms, present=True)

    def _forget(self, first: int) -> None:
        self._first = first
        if self._cells.on_disk:
            self._forget_by_walk(first)
            return
        segments = self._segments
        if segments is None:
            segments = self._segments = self._walk()
        for number in [number for number in segments if number < first]:
            for cell in segments.pop(number):
                self._cells.put(cell, None)
        for number in [number for number in self._runs if number < first]:
            for cell in chain.from_iterable(self._runs.pop(number)):
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
