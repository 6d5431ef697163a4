"""Aggregates over session windows.

A record starts a session [t, t] and merges it with every session of its key within the gap: the
merged session replaces the old ones, each of which is deleted with a tombstone. Both ends of a
session are inclusive; an update has the session's end as its timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.engine.observed_stream_time import ObservedStreamTime, drop_late, drop_null
from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import AnyRecord, Window, Windowed
from ottla.engine.stores import SessionStore
from ottla.engine.tuple_forwarder import TimestampedTupleForwarder
from ottla.engine.window_aggregates import WindowAggregation
from ottla.engine.window_close_queue import OpenWindow, WindowCloseQueue
from ottla.engine.windowed_serdes import BOUNDS
from ottla.engine.windows import SessionWindows

Session = Windowed[Any]


class KStreamSessionWindowAggregate(Processor[Any, Any]):
    def __init__(
        self, windows: SessionWindows, aggregation: WindowAggregation, *, old_values: bool
    ) -> None:
        self._gap_ms = windows.gap_ms
        self._open_ms = windows.gap_ms + windows.grace_ms
        self._aggregation = aggregation
        self._old_values = old_values
        self._final = aggregation.final

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        spec = self._aggregation.store
        self._store: SessionStore[Any, Any] = context.store(spec.name)
        self._observed = ObservedStreamTime(context)
        cached = spec.cached and not self._final
        self._updates = TimestampedTupleForwarder(
            context, cached=cached, old_values=self._old_values
        )
        if self._updates.cached:
            self._store.show_expired()
        if self._final:
            self._closing = WindowCloseQueue(self._walk, self._observed.emitted_ms)

    def process(self, record: AnyRecord) -> None:
        if record.key is None:
            drop_null(self.context, "key")
            return
        close_ms = self._observed.at(record.timestamp) - self._open_ms
        if self._final:
            self._emit_closed(record, close_ms)
        near, merged, aggregate = self._merged(record)
        if merged.end < close_ms:
            drop_late(self.context, record.timestamp, merged, close_ms)
            return
        if merged != (record.timestamp, record.timestamp):
            for session, value in near:
                self._store.remove(session)
                self._forward(session, None, value)
        session = Windowed(record.key, merged)
        aggregate = self._aggregation.aggregator(record.key, record.value, aggregate)
        self._store.put(session, aggregate)
        self._forward(session, aggregate, None)

    def _merged(self, record: AnyRecord) -> tuple[list[tuple[Session, Any]], Window, Any]:
        """The sessions that the record merges, their span including it, and their aggregate."""
        timestamp = record.timestamp
        near = list(
            self._store.find_sessions(
                record.key, timestamp - self._gap_ms, timestamp + self._gap_ms
            )
        )
        start = end = timestamp
        aggregate = self._aggregation.initializer()
        merger = self._aggregation.merger
        assert merger is not None
        for session, value in near:
            start, end = min(start, session.window.start), max(end, session.window.end)
            aggregate = merger(record.key, aggregate, value)
        return near, Window(start, end), aggregate

    def _forward(self, session: Session, new: Any, old: Any) -> None:
        start, end = session.window
        key = self._store.key_bytes(session.key)
        if not self._final:
            self._updates.forward(session, new, old, end, same=(key, end, start))
        elif new is not None:
            self._closing.add((end, start, key))

    def _emit_closed(self, record: AnyRecord, close_ms: int) -> None:
        """Emits sessions that are closed now. One that was merged is not in the store any more.

        Reads the cells instead of the store, because the store hides sessions whose end is
        `retention_ms` before the newest one, which is exactly when they close.
        """
        if close_ms <= self._observed.emitted_ms:
            return
        store = self._store
        spec = store.spec
        for end, start, key in self._closing.before(close_ms):
            data = store.cells.get(key + BOUNDS.pack(end, start))
            if data is not None:
                session = Windowed(spec.key.deserialize(store.topic, key), Window(start, end))
                value = spec.value.deserialize(store.topic, data)
                self._updates.forward(session, value, None, end, record.headers)
        self._observed.emitted_ms = close_ms

    def _walk(self) -> Iterator[OpenWindow]:
        for cell, _ in self._store.cells.range(None, None):
            key = cell[: -BOUNDS.size]
            end, start = BOUNDS.unpack_from(cell, len(key))
            yield end, start, key
