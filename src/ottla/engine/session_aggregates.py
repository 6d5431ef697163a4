"""Aggregates over session windows.

A record begins a session of its own, [t, t], and joins it with each session of its key that is no
further away than the gap: the old sessions are deleted, with a tombstone for each, and the joint
one takes their place. Both ends belong to a session; an update carries the session's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.engine.closing import Closing, Waiting
from ottla.engine.observing import Observed, drop_late, drop_null
from ottla.engine.processors import Context, Processor
from ottla.engine.records import AnyRecord, Window, Windowed
from ottla.engine.serdes import BOUNDS
from ottla.engine.stores import SessionStore
from ottla.engine.updates import Updates
from ottla.engine.window_aggregates import Aggregation
from ottla.engine.windows import SessionWindows

Session = Windowed[Any]


class SessionAggregate(Processor[Any, Any]):
    def __init__(
        self, windows: SessionWindows, aggregation: Aggregation, *, old_values: bool
    ) -> None:
        self._gap_ms = windows.gap_ms
        self._open_ms = windows.gap_ms + windows.grace_ms
        self._aggregation = aggregation
        self._old_values = old_values
        self._final = aggregation.final

    def init(self, context: Context) -> None:
        super().init(context)
        spec = self._aggregation.store
        self._store: SessionStore[Any, Any] = context.store(spec.name)
        self._observed = Observed(context)
        cached = spec.cached and not self._final
        self._updates = Updates(context, cached=cached, old_values=self._old_values)
        if self._updates.cached:
            self._store.show_expired()
        if self._final:
            self._closing = Closing(self._walk, self._observed.told_ms)

    def process(self, record: AnyRecord) -> None:
        if record.key is None:
            drop_null(self.context, "key")
            return
        close_ms = self._observed.at(record.timestamp) - self._open_ms
        if self._final:
            self._tell_closed(record, close_ms)
        near, merged, aggregate = self._merged(record)
        if merged.end < close_ms:
            drop_late(self.context, record.timestamp, merged, close_ms)
            return
        if merged != (record.timestamp, record.timestamp):
            for session, value in near:
                self._store.remove(session)
                self._tell(session, None, value)
        joint = Windowed(record.key, merged)
        aggregate = self._aggregation.aggregator(record.key, record.value, aggregate)
        self._store.put(joint, aggregate)
        self._tell(joint, aggregate, None)

    def _merged(self, record: AnyRecord) -> tuple[list[tuple[Session, Any]], Window, Any]:
        """The sessions that the record belongs to, what they span with it, and their aggregate."""
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

    def _tell(self, session: Session, new: Any, old: Any) -> None:
        start, end = session.window
        key = self._store.key_bytes(session.key)
        if not self._final:
            self._updates.forward(session, new, old, end, same=(key, end, start))
        elif new is not None:
            self._closing.add((end, start, key))

    def _tell_closed(self, record: AnyRecord, close_ms: int) -> None:
        """A session that has become part of another one is not in the store any more.

        The cells are read, not the store: that gives no session which ends `retention_ms` behind
        the newest one, and then a session is just about to close.
        """
        if close_ms <= self._observed.told_ms:
            return
        store = self._store
        spec = store.spec
        for end, start, key in self._closing.before(close_ms):
            data = store.cells.get(key + BOUNDS.pack(end, start))
            if data is not None:
                session = Windowed(spec.key.deserialize(store.topic, key), Window(start, end))
                value = spec.value.deserialize(store.topic, data)
                self._updates.forward(session, value, None, end, record.headers)
        self._observed.told_ms = close_ms

    def _walk(self) -> Iterator[Waiting]:
        for cell, _ in self._store.cells.range(None, None):
            key = cell[: -BOUNDS.size]
            end, start = BOUNDS.unpack_from(cell, len(key))
            yield end, start, key
