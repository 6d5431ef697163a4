"""Aggregates several grouped streams into one table (KIP-150).

    visits.group_by_key().cogroup(add_visit).cogroup(orders.group_by_key(), add_order)

Each stream has its own aggregator; all of them share one store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.aggregates import KStreamAggregate
from ottla.engine.records import Windowed
from ottla.engine.stateless import KStreamPassThrough
from ottla.engine.stores import StoreSpec
from ottla.engine.views import TableOperation, TableView
from ottla.engine.window_aggregates import WindowAggregation
from ottla.engine.window_operations import WindowAggregateOperation
from ottla.engine.windows import AggregateWindows, Span
from ottla.streams.windowed import check_merger, window_spec, windowed_key

if TYPE_CHECKING:
    from ottla.engine.processors import Processor
    from ottla.streams.grouped import KGroupedStream
    from ottla.streams.stream import KStream
    from ottla.streams.table import KTable

K = TypeVar("K")
A = TypeVar("A")

Group = tuple["KGroupedStream[Any, Any]", Callable[[Any, Any, Any], Any]]
PREFIX = "COGROUPKSTREAM-AGGREGATE-"


class CogroupedKStream(Generic[K, A]):
    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = tuple(groups)

    def cogroup(
        self, grouped: KGroupedStream[K, Any], aggregator: Callable[[K, Any, A], A]
    ) -> CogroupedKStream[K, A]:
        """Adds a stream with its `aggregator(key, value, aggregate)`."""
        return CogroupedKStream((*self._groups, (grouped, aggregator)))

    def windowed_by(self, windows: AggregateWindows) -> WindowedCogroupedKStream[K, A]:
        return WindowedCogroupedKStream(self._groups, windows)

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[K, A]:
        first = self._groups[0][0]
        spec = first.builder.store(
            PREFIX, store, first.key_serde, value, cached=cached, changelog=changelog
        )

        def operation(aggregator: Callable[..., Any]) -> TableOperation:
            return KStreamAggregate(spec, aggregator, initializer)

        return _table(self._groups, spec, operation, spec.key, store, name)


class WindowedCogroupedKStream(Generic[K, A]):
    def __init__(self, groups: Sequence[Group], windows: AggregateWindows) -> None:
        self._groups = groups
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[[K, A, A], A] | None = None,
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        retention: Span | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Session windows need `merger(key, one, two)`."""
        windows, first = self._windows, self._groups[0][0]
        check_merger(windows, merger)
        spec = window_spec(
            first.builder,
            windows,
            PREFIX,
            store,
            first.key_serde,
            value,
            retention=retention,
            cached=cached,
            changelog=changelog,
        )

        def operation(aggregator: Callable[..., Any]) -> TableOperation:
            made = WindowAggregation(spec, initializer, aggregator, False, merger=merger)
            return WindowAggregateOperation(windows, made)

        key = windowed_key(windows, spec.key)
        return _table(self._groups, spec, operation, key, store, name)


class CogroupMerge(TableOperation):
    """Joins the streams' aggregates, which share a store, into one table."""

    def __init__(self, operations: Sequence[TableOperation]) -> None:
        self.parents = operations

    def __call__(self) -> Processor[Any, Any]:
        return KStreamPassThrough()

    def enable_old_values(self, *, force: bool) -> bool:
        for parent in self.parents:
            parent.enable_old_values(force=force)
        return True

    def view(self) -> TableView:
        return self.parents[0].view()


def _table(
    groups: Sequence[Group],
    spec: StoreSpec,
    operation: Callable[[Callable[..., Any]], TableOperation],
    key: Serde[Any],
    store: str | None,
    name: str | None,
) -> KTable[Any, Any]:
    from ottla.streams.table import KTable

    builder = groups[0][0].builder
    parents = _parents(groups, spec)
    operations = [operation(aggregator) for _, aggregator in groups]
    nodes = []
    for number, (parent, made) in enumerate(zip(parents, operations, strict=True)):
        node = builder.new_name(PREFIX, None if name is None else f"{name}-cogroup-agg-{number}")
        nodes.append(builder.processor(node, made, [parent.node], stores=[spec]))
    merge = builder.new_name(
        "COGROUPKSTREAM-MERGE-", None if name is None else f"{name}-cogroup-merge"
    )
    merged = CogroupMerge(operations)
    builder.processor(merge, merged, nodes)
    sources = frozenset[str]().union(*(parent.sources for parent in parents))
    return KTable(builder, merge, key, spec.value, merged, sources=sources, store=store)


def _parents(groups: Sequence[Group], spec: StoreSpec) -> list[KStream[Any, Any]]:
    """The streams partitioned by key, with equal partition counts."""
    parents: list[KStream[Any, Any]] = []
    unnamed = 0
    for grouped, _ in groups:
        unnamed += grouped.stream.rekeyed and grouped.name is None
        prefix = spec.name if unnamed <= 1 else f"{spec.name}-{unnamed}"
        parents.append(grouped.repartitioned(prefix))
    graph = groups[0][0].builder.graph
    graph.copartitioned.append(frozenset[str]().union(*(parent.sources for parent in parents)))
    return parents
