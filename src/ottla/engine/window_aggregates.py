"""Aggregates over tumbling, hopping and unlimited windows, and what sliding ones share with them.

A record changes each of its windows that is still open. A window is closed when the largest
timestamp that this node has seen lies as far behind its end as the grace says; it takes nothing
more then. An update carries the largest timestamp of the window's records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ottla.engine.closing import Closing, Waiting
from ottla.engine.observing import Observed, drop_late, drop_null
from ottla.engine.processors import Context, Processor
from ottla.engine.records import AnyRecord, ValueAndTimestamp, Window, Windowed
from ottla.engine.stores import StoreSpec, WindowStore
from ottla.engine.updates import Updates
from ottla.engine.windows import TimeWindows, UnlimitedWindows

Found = ValueAndTimestamp[Any]
_windowed: Final = partial(tuple.__new__, Windowed)  # its own constructor is a call of Python's


@dataclass(frozen=True, slots=True)
class Aggregation:
    """What is done in each window. `final`: forward only results of closed windows.

    `stored_first`: as in Kafka a record is stored before it closes windows, so that those are lost
    that leave the store with it, when time leaps by more than the retention (see closing.py).
    """

    store: StoreSpec
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    """(key, value, aggregate) -> aggregate"""
    final: bool
    merger: Callable[[Any, Any, Any], Any] | None = None
    """(key, aggregate, aggregate) -> aggregate, for sessions"""
    stored_first: bool = False


class FixedWindowAggregate(Processor[Any, Any]):
    """Windows of one length, which is from the start to the last moment that belongs to them."""

    def __init__(
        self, aggregation: Aggregation, *, length_ms: int, grace_ms: int, old_values: bool
    ) -> None:
        self._aggregation = aggregation
        self._length_ms = length_ms
        self._grace_ms = grace_ms
        self._old_values = old_values
        self._final = aggregation.final
        self._stored_first = aggregation.final and aggregation.stored_first
        self._initializer = aggregation.initializer
        self._aggregator = aggregation.aggregator

    def init(self, context: Context) -> None:
        super().init(context)
        spec = self._aggregation.store
        self.store: WindowStore[Any, Found] = context.store(spec.name)
        self._read_key = self.store.spec.key.deserialize
        self._observed = Observed(context)
        cached = spec.cached and not self._final
        self._updates = Updates(context, cached=cached, old_values=self._old_values)
        if self._updates.cached:
            self.store.show_expired()
        if self._final:
            self._closing = Closing(self._walk, self._observed.told_ms - self._length_ms)

    def close_time(self, record: AnyRecord) -> int:
        """Windows whose last moment lies before it are closed. Tells of those that are so now."""
        close_ms = self._observed.at(record.timestamp) - self._grace_ms
        if self._final and not self._stored_first:
            self.tell_closed(record, close_ms)
        return close_ms

    def tell_closed(self, record: AnyRecord, close_ms: int) -> None:
        if close_ms > self._observed.told_ms:
            for start, end, data in self._closing.before(close_ms - self._length_ms):
                self._tell_final(
                    Windowed(self._read_key(self.store.topic, data), Window(start, end)), record
                )
            self._observed.told_ms = close_ms

    def update(
        self,
        record: AnyRecord,
        key: bytes,
        window: Window,
        cell: bytes,
        before: tuple[Any, int] | None,
    ) -> None:
        """`key` are its bytes, `cell` the window's; `before` is what it has without the record."""
        timestamp = record.timestamp
        if before is None:
            aggregate, old = self._initializer(), None
        else:
            aggregate, at = before
            old = aggregate
            if at > timestamp:
                timestamp = at
        new = self._aggregator(record.key, record.value, aggregate)
        self.put(record, key, window, cell, new, old, timestamp)

    def put(
        self,
        record: AnyRecord,
        key: bytes,
        window: Window,
        cell: bytes,
        new: Any,
        old: Any,
        timestamp: int,
    ) -> None:
        start = window.start
        self.store.write(cell, start, new, timestamp)
        if self._final:
            self._closing.add((start, window.end, key))
        else:
            windowed: Windowed[Any] = _windowed((record.key, window))
            self._updates.forward(windowed, new, old, timestamp, record.headers, same=cell)

    def drop_late(self, record: AnyRecord, window: Window, close_ms: int) -> None:
        drop_late(self.context, record.timestamp, window, close_ms)

    def _tell_final(self, windowed: Windowed[Any], record: AnyRecord) -> None:
        found = self.store.get(windowed.key, windowed.window.start)
        if found is not None:
            self._updates.forward(windowed, found.value, None, found.timestamp, record.headers)

    def _walk(self) -> Iterator[Waiting]:
        for windowed, _ in self.store.all():
            start, end = windowed.window
            yield start, end, self.store.key_bytes(windowed.key)


class WindowAggregate(FixedWindowAggregate):
    def __init__(
        self,
        windows: TimeWindows | UnlimitedWindows,
        aggregation: Aggregation,
        *,
        old_values: bool,
    ) -> None:
        super().__init__(
            aggregation,
            length_ms=windows.size_ms - 1,
            grace_ms=windows.grace_ms,
            old_values=old_values,
        )
        self._windows_for = _remembering(windows)

    def process(self, record: AnyRecord) -> None:
        if record.key is None:
            drop_null(self.context, "key")
            return
        close_ms = self.close_time(record)
        store = self.store
        key = store.key_bytes(record.key)
        for window in self._windows_for(record.timestamp):
            if window.end > close_ms:
                start = window.start
                cell = store.cell(key, start)
                self.update(record, key, window, cell, store.read(cell, start))
            else:
                self.drop_late(record, window, close_ms)
        if self._stored_first:
            self.tell_closed(record, close_ms)


def _remembering(windows: TimeWindows | UnlimitedWindows) -> Callable[[int], list[Window]]:
    """Most records fall into the window of the one before, where windows do not overlap."""
    if isinstance(windows, UnlimitedWindows) or windows.advance_ms != windows.size_ms:
        return windows.windows_for
    find, size_ms, last = windows.windows_for, windows.size_ms, [Window(-1, -1)]

    def windows_for(timestamp: int) -> list[Window]:
        nonlocal last
        if last[0].start != timestamp - timestamp % size_ms:
            last = find(timestamp)
        return last

    return windows_for
