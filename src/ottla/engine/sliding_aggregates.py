"""Aggregates over sliding windows (KIP-450).

A record at t has two windows: the left one, [t - difference, t], exists at once; the right one,
[t + 1, t + 1 + difference], exists when a later record falls into it. So every distinct set of
records within the difference has exactly one window. Both ends are inclusive. A record is added to
every window that contains it. Records are not stored, so a new window starts with the aggregate of
an adjacent one:

    left window     the nearest window that ended before t has all records in [t - difference, t)
    right window    the latest window that contains t has all records after t

Windows do not start before 0: records earlier than the difference share [0, difference].
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.engine.observed_stream_time import drop_null
from ottla.engine.records import AnyRecord, ValueAndTimestamp, Window
from ottla.engine.window_aggregates import FixedSizeWindowAggregate, Found, WindowAggregation
from ottla.engine.windows import SlidingWindows


@dataclass(slots=True)
class AdjacentWindows:
    """What a scan of the windows around a record has found."""

    starts: set[int] = field(default_factory=set)
    left: Found | None = None
    """The latest window that ended before the record."""
    right: Found | None = None
    """The latest window that contains the record's time, without the record."""
    previous_ms: int | None = None
    """The timestamp of the preceding record."""
    left_exists: bool = False
    right_exists: bool = False


class KStreamSlidingWindowAggregate(FixedSizeWindowAggregate):
    def __init__(
        self, windows: SlidingWindows, aggregation: WindowAggregation, *, old_values: bool
    ) -> None:
        super().__init__(
            aggregation,
            length_ms=windows.difference_ms,
            grace_ms=windows.grace_ms,
            old_values=old_values,
        )
        self._difference_ms = windows.difference_ms

    def process(self, record: AnyRecord) -> None:
        if record.key is None or record.value is None:
            drop_null(self.context, "key or value")
            return
        close_ms = self.close_time(record)
        if record.timestamp + self._difference_ms < close_ms:
            window = Window(record.timestamp, record.timestamp + self._difference_ms)
            self.drop_late(record, window, close_ms)
        elif record.timestamp < self._difference_ms:
            self._process_early(record, close_ms)
        else:
            self._process(record, close_ms)

    def _process(self, record: AnyRecord, close_ms: int) -> None:
        around = self._look_around(record, close_ms)
        if around is None:
            return
        time_ms, previous_ms = record.timestamp, around.previous_ms
        if previous_ms is not None and previous_ms + 1 + self._difference_ms >= time_ms:
            self._begin_right_of(previous_ms, around, record, close_ms)
        if not around.left_exists:
            before = None
            if previous_ms is not None and previous_ms >= time_ms - self._difference_ms:
                assert around.left is not None
                before = ValueAndTimestamp(around.left.value, time_ms)
            self._add(record, time_ms - self._difference_ms, before, close_ms)
        self._begin_own_right(record, around)

    def _look_around(self, record: AnyRecord, close_ms: int) -> AdjacentWindows | None:
        """Adds the record to the windows that contain it. None: its own windows exist already."""
        time_ms = record.timestamp
        around = AdjacentWindows()
        earliest_ms = max(0, time_ms - 2 * self._difference_ms)
        windows = self.store.fetch(record.key, earliest_ms, time_ms + 1, reverse=True)
        for start, value in windows:
            around.starts.add(start)
            end = start + self._difference_ms
            if start == time_ms + 1:
                around.right_exists = True
            elif end > time_ms:
                if around.right is None:
                    around.right = value
                self._add(record, start, value, close_ms)
            elif end == time_ms:
                around.left_exists = True
                self._add(record, start, value, close_ms)
                if value.timestamp >= time_ms:
                    return None
                around.previous_ms = value.timestamp
            else:
                around.left, around.previous_ms = value, value.timestamp
                break
        return around

    def _process_early(self, record: AnyRecord, close_ms: int) -> None:
        time_ms = record.timestamp
        around = AdjacentWindows()
        first: Found | None = None
        for start, value in self.store.fetch(record.key, 0, time_ms + 1):
            around.starts.add(start)
            if start == 0:
                first = value
                if value.timestamp < time_ms:
                    around.previous_ms = value.timestamp
            elif start <= time_ms:
                around.right = value
                self._add(record, start, value, close_ms)
            else:
                around.right_exists = True
        if around.right is None:
            around.right = first
        self._begin_own_right(record, around)
        if around.previous_ms is not None:
            self._begin_right_of(around.previous_ms, around, record, close_ms)
        self._add(record, 0, first, close_ms)

    def _begin_right_of(
        self, previous_ms: int, around: AdjacentWindows, record: AnyRecord, close_ms: int
    ) -> None:
        """Creates the right window of the preceding record, with this record as its first."""
        if previous_ms + 1 not in around.starts:
            self._add(record, previous_ms + 1, None, close_ms)

    def _begin_own_right(self, record: AnyRecord, around: AdjacentWindows) -> None:
        later = around.right
        if later is not None and later.timestamp > record.timestamp and not around.right_exists:
            key = self.store.key_bytes(record.key)
            window = self._window(record.timestamp + 1)
            cell = self.store.cell(key, window.start)
            self.put(record, key, window, cell, later.value, None, later.timestamp)

    def _add(
        self,
        record: AnyRecord,
        start: int,
        before: Found | None,
        close_ms: int,
    ) -> None:
        window = self._window(start)
        if window.end >= close_ms:
            key = self.store.key_bytes(record.key)
            self.update(record, key, window, self.store.cell(key, start), before)
        else:
            self.drop_late(record, window, close_ms)

    def _window(self, start: int) -> Window:
        return Window(start, start + self._difference_ms)
