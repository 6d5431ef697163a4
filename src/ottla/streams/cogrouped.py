"""Several grouped streams, aggregated into one table (KIP-150).

    visits.group_by_key().cogroup(add_visit).cogroup(orders.group_by_key(), add_order)

Each stream has its own aggregator; all of them work on the same store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.aggregates import Aggregate
from ottla.engine.records import Windowed
from ottla.engine.stateless import Pass
from ottla.engine.stores import StoreSpec
from ottla.engine.views import TableOperation, View
from ottla.engine.window_aggregates import Aggregation
from ottla.engine.window_operations import WindowedAggregate
from ottla.engine.windows import AggregateWindows, Span
from ottla.streams.windowed import check_merger, window_spec, windowed_key

if TYPE_CHECKING:
    from ottla.engine.processors import Processor
    from ottla.streams.grouped import GroupedStream
    from ottla.streams.stream import Stream
    from ottla.streams.table import Table

K = TypeVar("K")
A = TypeVar("A")

Group = tuple["GroupedStream[Any, Any]", Callable[[Any, Any, Any], Any]]
PREFIX = "COGROUPKSTREAM-AGGREGATE-"


class Cogrouped(Generic[K, A]):
    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = tuple(groups)

    def cogroup(
        self, grouped: GroupedStream[K, Any], aggregator: Callable[[K, Any, A], A]
    ) -> Cogrouped[K, A]:
        """One stream more, with `aggregator(key, value, aggregate)`."""
        return Cogrouped((*self._groups, (grouped, aggregator)))

    def windowed_by(self, windows: AggregateWindows) -> WindowedCogrouped[K, A]:
        return WindowedCogrouped(self._groups, windows)

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, A]:
        first = self._groups[0][0]
        spec = first.builder.store(
            PREFIX, store, first.key_serde, value, cached=cached, changelog=changelog
        )

        def operation(aggregator: Callable[..., Any]) -> TableOperation:
            return Aggregate(spec, aggregator, initializer)

        return _table(self._groups, spec, operation, spec.key, store, name)


class WindowedCogrouped(Generic[K, A]):
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
    ) -> Table[Windowed[K], A]:
        """Sessions need `merger(key, one, two)`."""
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
            made = Aggregation(spec, initializer, aggregator, False, merger=merger)
            return WindowedAggregate(windows, made)

        key = windowed_key(windows, spec.key)
        return _table(self._groups, spec, operation, key, store, name)


class Merged(TableOperation):
    """What the streams' aggregates have in common: the store, and those who want old values."""

    def __init__(self, operations: Sequence[TableOperation]) -> None:
        self.parents = operations

    def __call__(self) -> Processor[Any, Any]:
        return Pass()

    def enable_old_values(self, *, force: bool) -> bool:
        for each in self.parents:
            each.enable_old_values(force=force)
        return True

    def view(self) -> View:
        return self.parents[0].view()


def _table(
    groups: Sequence[Group],
    spec: StoreSpec,
    operation: Callable[[Callable[..., Any]], TableOperation],
    key: Serde[Any],
    store: str | None,
    name: str | None,
) -> Table[Any, Any]:
    from ottla.streams.table import Table

    builder = groups[0][0].builder
    parents = _parents(groups, spec)
    operations = [operation(aggregator) for _, aggregator in groups]
    nodes = []
    for number, (parent, each) in enumerate(zip(parents, operations, strict=True)):
        node = builder.new_name(PREFIX, None if name is None else f"{name}-cogroup-agg-{number}")
        nodes.append(builder.processor(node, each, [parent.node], stores=[spec]))
    merge = builder.new_name(
        "COGROUPKSTREAM-MERGE-", None if name is None else f"{name}-cogroup-merge"
    )
    merged = Merged(operations)
    builder.processor(merge, merged, nodes)
    sources = frozenset[str]().union(*(parent.sources for parent in parents))
    return Table(builder, merge, key, spec.value, merged, sources=sources, store=store)


def _parents(groups: Sequence[Group], spec: StoreSpec) -> list[Stream[Any, Any]]:
    """Where each stream's records lie with their keys; all with equally many partitions."""
    parents: list[Stream[Any, Any]] = []
    unnamed = 0
    for grouped, _ in groups:
        unnamed += grouped.stream.rekeyed and grouped.name is None
        prefix = spec.name if unnamed <= 1 else f"{spec.name}-{unnamed}"
        parents.append(grouped.repartitioned(prefix))
    graph = groups[0][0].builder.graph
    graph.copartitioned.append(frozenset[str]().union(*(each.sources for each in parents)))
    return parents
