"""Records by key and window: what windowed tables are counted, reduced and aggregated from.

The table's keys are Windowed(key, window). It forgets windows `retention` behind the newest one;
by default as soon as they can't change any more.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Long, Serde
from ottla.engine.aggregates import counted, zero
from ottla.engine.records import Windowed
from ottla.engine.serdes import SessionWindowed, TimeWindowed
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.window_aggregates import Aggregation
from ottla.engine.window_operations import WindowedAggregate
from ottla.engine.windows import (
    AggregateWindows,
    SessionWindows,
    SlidingWindows,
    Span,
    UnlimitedWindows,
    milliseconds,
)
from ottla.streams.building import Builder

if TYPE_CHECKING:
    from ottla.streams.grouped import GroupedStream
    from ottla.streams.table import Table

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class EmitStrategy(Enum):
    """Whether every update of a window is told, or its result once it is closed (KIP-825)."""

    ON_WINDOW_UPDATE = "on window update"
    ON_WINDOW_CLOSE = "on window close"


class WindowedStream(Generic[K, V]):
    """What `windowed_by` gives. Late records are dropped when their window is closed."""

    def __init__(
        self,
        grouped: GroupedStream[K, V],
        windows: AggregateWindows,
        strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._final = strategy is EmitStrategy.ON_WINDOW_CLOSE

    def emit(self, strategy: EmitStrategy) -> WindowedStream[K, V]:
        if strategy is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise ValueError("ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows")
        return WindowedStream(self._grouped, self._windows, strategy)

    def count(
        self,
        *,
        store: str | None = None,
        retention: Span | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], int]:
        """How many records each window has."""
        prefix = "KSTREAM-AGGREGATE-"
        spec = self._spec(prefix, store, Long(), retention, cached, changelog)
        made = Aggregation(spec, zero, counted, self._final, merger=_sum)
        return self._table(prefix, name, made, store)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | None = None,
        retention: Span | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], V]:
        """`reducer(aggregate, value)`; the first value of a window is its first aggregate."""
        prefix = "KSTREAM-REDUCE-"
        value = self._grouped.value_serde
        spec = self._spec(prefix, store, value, retention, cached, changelog)

        def add(key: K, value: V, aggregate: V | None) -> V:
            return value if aggregate is None else reducer(aggregate, value)

        def merge(key: K, one: V | None, two: V) -> V:
            return two if one is None else reducer(one, two)

        made = Aggregation(spec, _nothing, add, self._final, merger=merge)
        return self._table(prefix, name, made, store)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        merger: Callable[[K, A, A], A] | None = None,
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        retention: Span | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[Windowed[K], A]:
        """`aggregator(key, value, aggregate)`, begun with what `initializer()` gives.

        Sessions need `merger(key, one, two)`, too: what two of them have when they become one.
        """
        check_merger(self._windows, merger)
        prefix = "KSTREAM-AGGREGATE-"
        spec = self._spec(prefix, store, value, retention, cached, changelog)
        made = Aggregation(spec, initializer, aggregator, self._final, merger=merger)
        return self._table(prefix, name, made, store)

    def _spec(
        self,
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        retention: Span | None,
        cached: bool,
        changelog: bool,
    ) -> StoreSpec:
        builder, key = self._grouped.builder, self._grouped.key_serde
        return window_spec(
            builder,
            self._windows,
            prefix,
            store,
            key,
            value,
            retention=retention,
            cached=cached,
            changelog=changelog,
        )

    def _table(
        self, prefix: str, name: str | None, made: Aggregation, store: str | None
    ) -> Table[Windowed[K], Any]:
        from ottla.streams.table import Table

        builder = self._grouped.builder
        node = builder.new_name(prefix, name)
        parent = self._grouped.repartitioned(made.store.name)
        operation = WindowedAggregate(self._windows, made)
        builder.processor(node, operation, [parent.node], stores=[made.store])
        return Table(
            builder,
            node,
            windowed_key(self._windows, made.store.key),
            made.store.value,
            operation,
            sources=parent.sources,
            store=store,
        )


def window_spec(
    builder: Builder,
    windows: AggregateWindows,
    prefix: str,
    store: str | None,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    *,
    retention: Span | None,
    cached: bool,
    changelog: bool,
) -> StoreSpec:
    """The store of a windowed aggregate."""
    least_ms = windows.retention_ms
    retention_ms = least_ms if retention is None else milliseconds(retention)
    if retention_ms < least_ms:
        raise ValueError(
            f"The retention period of the window store {store or prefix} must be no smaller than "
            f"{_least_words(windows)}. Got {least_ms} ms at least, retention=[{retention_ms}]"
        )
    sessions = isinstance(windows, SessionWindows)
    return builder.store(
        prefix,
        store,
        key,
        value,
        kind=StoreKind.SESSION if sessions else StoreKind.TIMESTAMPED_WINDOW,
        retention_ms=retention_ms,
        window_ms=None if isinstance(windows, SessionWindows) else length_of(windows),
        cached=cached,
        changelog=changelog,
    )


def windowed_key(windows: AggregateWindows, key: Serde[Any]) -> Serde[Windowed[Any]]:
    if isinstance(windows, SessionWindows):
        return SessionWindowed(key)
    return TimeWindowed(key, length_of(windows))


def length_of(windows: AggregateWindows) -> int:
    """From the start of a window to its end, as it is written."""
    assert not isinstance(windows, SessionWindows)
    return windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms


def check_merger(windows: AggregateWindows, merger: Callable[..., Any] | None) -> None:
    if (merger is not None) != isinstance(windows, SessionWindows):
        raise TypeError("session windows need a merger(key, one, two), and only they have one")


def _least_words(windows: AggregateWindows) -> str:
    if isinstance(windows, SlidingWindows):
        return "2 * time difference plus the grace period"
    if isinstance(windows, SessionWindows):
        return "its gap plus the grace period"
    return "its window size plus the grace period"


def _sum(key: Any, one: int, two: int) -> int:
    return one + two


def _nothing() -> None:
    return None
