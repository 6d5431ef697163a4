"""Aggregates over tumbling, hopping and unlimited windows, and the base of sliding ones.

A record updates each of its windows that is still open. A window closes when the node's observed
stream time has passed its end by the grace period; then it drops late records. An update has the
largest timestamp of the window's records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ottla.engine.observed_stream_time import ObservedStreamTime, drop_late, drop_null
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import AnyRecord, ValueAndTimestamp, Window, Windowed
from ottla.engine.stores import StoreSpec, WindowStore
from ottla.engine.tuple_forwarder import TimestampedTupleForwarder
from ottla.engine.window_close_queue import OpenWindow, WindowCloseQueue
from ottla.engine.windows import TimeWindows, UnlimitedWindows

Found = ValueAndTimestamp[Any]
_windowed: Final = partial(tuple.__new__, Windowed)  # avoids the NamedTuple's Python constructor


@dataclass(frozen=True, slots=True)
class WindowAggregation:
    """The aggregation of each window. `final`: forward only results of closed windows.

    `stored_first`: like Kafka, store a record before it closes windows. That loses the windows that
    the record expires when time jumps by more than the retention (window_close_queue.py).
    """

    store: StoreSpec
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    """(key, value, aggregate) -> aggregate"""
    final: bool
    merger: Callable[[Any, Any, Any], Any] | None = None
    """(key, aggregate, aggregate) -> aggregate, for sessions"""
    stored_first: bool = False


class FixedSizeWindowAggregate(Processor[Any, Any]):
    """The base for windows of one length, from their start to their last millisecond."""

    def __init__(
        self, aggregation: WindowAggregation, *, length_ms: int, grace_ms: int, old_values: bool
    ) -> None:
        self._aggregation = aggregation
        self._length_ms = length_ms
        self._grace_ms = grace_ms
        self._old_values = old_values
        self._final = aggregation.final
        self._stored_first = aggregation.final and aggregation.stored_first
        self._initializer = aggregation.initializer
        self._aggregator = aggregation.aggregator

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        spec = self._aggregation.store
        self.store: WindowStore[Any, Found] = context.store(spec.name)
        self._read_key = self.store.spec.key.deserialize
        self._observed = ObservedStreamTime(context)
        cached = spec.cached and not self._final
        self._updates = TimestampedTupleForwarder(
            context, cached=cached, old_values=self._old_values
        )
        if self._updates.cached:
            self.store.show_expired()
        if self._final:
            self._closing = WindowCloseQueue(
                self._walk, self._observed.emitted_ms - self._length_ms
            )

    def close_time(self, record: AnyRecord) -> int:
        """Windows that end before this time are closed. Emits those that have just closed."""
        close_ms = self._observed.at(record.timestamp) - self._grace_ms
        if self._final and not self._stored_first:
            self.emit_closed(record, close_ms)
        return close_ms

    def emit_closed(self, record: AnyRecord, close_ms: int) -> None:
        if close_ms > self._observed.emitted_ms:
            for start, end, data in self._closing.before(close_ms - self._length_ms):
                self._emit_final(
                    Windowed(self._read_key(self.store.topic, data), Window(start, end)), record
                )
            self._observed.emitted_ms = close_ms

    def update(
        self,
        record: AnyRecord,
        key: bytes,
        window: Window,
        cell: bytes,
        before: tuple[Any, int] | None,
    ) -> None:
        """`key` is serialized, `cell` the window's; `before` is its aggregate so far."""
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

    def _emit_final(self, windowed: Windowed[Any], record: AnyRecord) -> None:
        found = self.store.get(windowed.key, windowed.window.start)
        if found is not None:
            self._updates.forward(windowed, found.value, None, found.timestamp, record.headers)

    def _walk(self) -> Iterator[OpenWindow]:
        for windowed, _ in self.store.all():
            start, end = windowed.window
            yield start, end, self.store.key_bytes(windowed.key)


class KStreamWindowAggregate(FixedSizeWindowAggregate):
    def __init__(
        self,
        windows: TimeWindows | UnlimitedWindows,
        aggregation: WindowAggregation,
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
            self.emit_closed(record, close_ms)


def _remembering(windows: TimeWindows | UnlimitedWindows) -> Callable[[int], list[Window]]:
    """Caches the last window: without overlap, most records fall into their predecessor's."""
    if isinstance(windows, UnlimitedWindows) or windows.advance_ms != windows.size_ms:
        return windows.windows_for
    find, size_ms, last = windows.windows_for, windows.size_ms, [Window(-1, -1)]

    def windows_for(timestamp: int) -> list[Window]:
        nonlocal last
        if last[0].start != timestamp - timestamp % size_ms:
            last = find(timestamp)
        return last

    return windows_for
