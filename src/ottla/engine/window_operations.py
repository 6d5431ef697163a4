"""Windowed aggregates as table operations: their processor, their view and when windows close."""

from __future__ import annotations

from typing import Any

from ottla.engine.processors import Processor, ProcessorContext
from ottla.engine.records import ValueAndTimestamp, Windowed
from ottla.engine.session_aggregates import KStreamSessionWindowAggregate
from ottla.engine.sliding_aggregates import KStreamSlidingWindowAggregate
from ottla.engine.stores import SessionStore, WindowStore
from ottla.engine.views import Getter, TableOperation, TableView
from ottla.engine.window_aggregates import KStreamWindowAggregate, WindowAggregation
from ottla.engine.windows import AggregateWindows, SessionWindows, SlidingWindows


class WindowAggregateOperation(TableOperation):
    def __init__(self, windows: AggregateWindows, aggregation: WindowAggregation) -> None:
        self.windows = windows
        self.aggregation = aggregation
        self.wait_ms = windows.grace_ms
        if isinstance(windows, SessionWindows):
            self.wait_ms += windows.gap_ms

    def __call__(self) -> Processor[Any, Any]:
        windows, aggregation, old_values = self.windows, self.aggregation, self.old_values
        if isinstance(windows, SessionWindows):
            return KStreamSessionWindowAggregate(windows, aggregation, old_values=old_values)
        if isinstance(windows, SlidingWindows):
            return KStreamSlidingWindowAggregate(windows, aggregation, old_values=old_values)
        return KStreamWindowAggregate(windows, aggregation, old_values=old_values)

    def view(self) -> TableView:
        name = self.aggregation.store.name
        return SessionView(name) if isinstance(self.windows, SessionWindows) else WindowView(name)


class WindowView(TableView):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: ProcessorContext) -> Getter:
        store: WindowStore[Any, ValueAndTimestamp[Any]] = context.store(self.stores[0])
        return lambda windowed: store.get(windowed.key, windowed.window.start)


class SessionView(TableView):
    def __init__(self, store: str) -> None:
        self.stores = (store,)

    def open(self, context: ProcessorContext) -> Getter:
        store: SessionStore[Any, Any] = context.store(self.stores[0])

        def get(session: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
            start, end = session.window
            value = store.fetch_session(session.key, start, end)
            return None if value is None else ValueAndTimestamp(value, end)

        return get
