"""Windowed streams, which are counted, reduced or aggregated into windowed tables.

The table's keys are Windowed(key, window). Windows expire `retention` after the newest one; by
default as soon as they can't change any more.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Long, Serde
from ottla.engine.aggregates import count_aggregator, count_initializer
from ottla.engine.records import Windowed
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.window_aggregates import WindowAggregation
from ottla.engine.window_operations import WindowAggregateOperation
from ottla.engine.windowed_serdes import SessionWindowed, TimeWindowed
from ottla.engine.windows import (
    AggregateWindows,
    SessionWindows,
    SlidingWindows,
    Span,
    UnlimitedWindows,
    milliseconds,
)
from ottla.streams.internal_streams_builder import InternalStreamsBuilder

if TYPE_CHECKING:
    from ottla.streams.grouped import KGroupedStream
    from ottla.streams.table import KTable

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class EmitStrategy(Enum):
    """Emit every update of a window, or only its final result when it closes (KIP-825)."""

    ON_WINDOW_UPDATE = "on window update"
    ON_WINDOW_CLOSE = "on window close"


class WindowedKStream(Generic[K, V]):
    """The result of `windowed_by`. Records of closed windows are dropped."""

    def __init__(
        self,
        grouped: KGroupedStream[K, V],
        windows: AggregateWindows,
        strategy: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    ) -> None:
        self._grouped = grouped
        self._windows = windows
        self._final = strategy is EmitStrategy.ON_WINDOW_CLOSE

    def emit(self, strategy: EmitStrategy) -> WindowedKStream[K, V]:
        if strategy is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise ValueError("ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows")
        return WindowedKStream(self._grouped, self._windows, strategy)

    def count(
        self,
        *,
        store: str | None = None,
        retention: Span | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[Windowed[K], int]:
        """The number of records by key and window."""
        prefix = "KSTREAM-AGGREGATE-"
        spec = self._spec(prefix, store, Long(), retention, cached, changelog)
        made = WindowAggregation(
            spec, count_initializer, count_aggregator, self._final, merger=_sum
        )
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
    ) -> KTable[Windowed[K], V]:
        """`reducer(aggregate, value)`; the first value of a window is its first aggregate."""
        prefix = "KSTREAM-REDUCE-"
        value = self._grouped.value_serde
        spec = self._spec(prefix, store, value, retention, cached, changelog)

        def add(key: K, value: V, aggregate: V | None) -> V:
            return value if aggregate is None else reducer(aggregate, value)

        def merge(key: K, one: V | None, two: V) -> V:
            return two if one is None else reducer(one, two)

        made = WindowAggregation(spec, _nothing, add, self._final, merger=merge)
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
    ) -> KTable[Windowed[K], A]:
        """`aggregator(key, value, aggregate)`, starting with `initializer()`.

        Session windows also need `merger(key, one, two)`, for two sessions that merge.
        """
        check_merger(self._windows, merger)
        prefix = "KSTREAM-AGGREGATE-"
        spec = self._spec(prefix, store, value, retention, cached, changelog)
        made = WindowAggregation(spec, initializer, aggregator, self._final, merger=merger)
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
        self, prefix: str, name: str | None, made: WindowAggregation, store: str | None
    ) -> KTable[Windowed[K], Any]:
        from ottla.streams.table import KTable

        builder = self._grouped.builder
        node = builder.new_name(prefix, name)
        parent = self._grouped.repartitioned(made.store.name)
        operation = WindowAggregateOperation(self._windows, made)
        builder.processor(node, operation, [parent.node], stores=[made.store])
        return KTable(
            builder,
            node,
            windowed_key(self._windows, made.store.key),
            made.store.value,
            operation,
            sources=parent.sources,
            store=store,
        )


def window_spec(
    builder: InternalStreamsBuilder,
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
    """From the start of a window to its end, as in its serialized key."""
    assert not isinstance(windows, SessionWindows)
    return windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms


def check_merger(windows: AggregateWindows, merger: Callable[..., Any] | None) -> None:
    if (merger is not None) != isinstance(windows, SessionWindows):
        raise TypeError("session windows, and only they, need a merger(key, one, two)")


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
