"""Windowed aggregates as operations of tables: which processor, which view, when windows close."""

from __future__ import annotations

from typing import Any

from ottla.engine.processors import Context, Processor
from ottla.engine.records import ValueAndTimestamp, Windowed
from ottla.engine.session_aggregates import SessionAggregate
from ottla.engine.sliding_aggregates import SlidingAggregate
from ottla.engine.stores import SessionStore, WindowStore
from ottla.engine.views import Getter, TableOperation, View
from ottla.engine.window_aggregates import Aggregation, WindowAggregate
from ottla.engine.windows import AggregateWindows, SessionWindows, SlidingWindows


class WindowedAggregate(TableOperation):
    def __init__(self, windows: AggregateWindows, aggregation: Aggregation) -> None:
        self.windows = windows
        self.aggregation = aggregation
        self.wait_ms = windows.grace_ms
        if isinstance(windows, SessionWindows):
            self.wait_ms += windows.gap_ms

    def __call__(self) -> Processor[Any, Any]:
        windows, aggregation, old_values = self.windows, self.aggregation, self.old_values
        if isinstance(windows, SessionWindows):
            return SessionAggregate(windows, aggregation, old_values=old_values)
        if isinstance(windows, SlidingWindows):
            return SlidingAggregate(windows, aggregation, old_values=old_values)
        return WindowAggregate(windows, aggregation, old_values=old_values)

    def view(self) -> View:
        name = self.aggregation.store.name
        return SessionView(name) if isinstance(self.windows, SessionWindows) else WindowView(name)


class WindowView(View):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: Context) -> Getter:
        store: WindowStore[Any, ValueAndTimestamp[Any]] = context.store(self.stores[0])
        return lambda windowed: store.get(windowed.key, windowed.window.start)


class SessionView(View):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: Context) -> Getter:
        store: SessionStore[Any, Any] = context.store(self.stores[0])

        def get(session: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
            start, end = session.window
            value = store.fetch_session(session.key, start, end)
            return None if value is None else ValueAndTimestamp(value, end)

        return get
