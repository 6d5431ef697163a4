"""Records by key, and tables by another key: what they are counted, reduced and aggregated from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Long, Serde
from ottla.engine.aggregates import (
    Aggregate,
    AggregateTable,
    Aggregator,
    Initializer,
    counted,
    reducing,
    uncounted,
    zero,
)
from ottla.engine.changes import Changed
from ottla.engine.graph import Repartition
from ottla.engine.stores import StoreSpec
from ottla.engine.views import TableOperation
from ottla.engine.windows import AggregateWindows
from ottla.streams.building import Builder
from ottla.streams.cogrouped import Cogrouped
from ottla.streams.windowed import WindowedStream

if TYPE_CHECKING:
    from ottla.streams.stream import Stream
    from ottla.streams.table import Table

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class GroupedStream(Generic[K, V]):
    """`name`: of the repartition topic, where there is one; else it is called after the store."""

    def __init__(
        self,
        stream: Stream[K, V],
        key: Serde[K] | None,
        value: Serde[V] | None,
        *,
        name: str | None = None,
    ) -> None:
        self.stream = stream
        self.builder = stream.builder
        self.key_serde = key
        self.value_serde = value
        self.name = name

    def count(
        self,
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, int]:
        """How many records with a value each key has had."""
        spec = self._spec("KSTREAM-AGGREGATE-", store, Long(), cached, changelog)
        operation = Aggregate(spec, counted, zero)
        return self._table("KSTREAM-AGGREGATE-", name, operation, spec, store)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, V]:
        """`reducer(aggregate, value)`; the first value is the first aggregate."""
        spec = self._spec("KSTREAM-REDUCE-", store, self.value_serde, cached, changelog)
        operation = Aggregate(spec, reducing(reducer), None)
        return self._table("KSTREAM-REDUCE-", name, operation, spec, store)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, A]:
        """`aggregator(key, value, aggregate)`, begun with what `initializer()` gives."""
        spec = self._spec("KSTREAM-AGGREGATE-", store, value, cached, changelog)
        operation = Aggregate(spec, aggregator, initializer)
        return self._table("KSTREAM-AGGREGATE-", name, operation, spec, store)

    def windowed_by(self, windows: AggregateWindows) -> WindowedStream[K, V]:
        """`tumbling(...)`, `hopping(...)`, `sliding(...)`, `session(...)`, `unlimited()`."""
        return WindowedStream(self, windows)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> Cogrouped[K, A]:
        """Begins an aggregate of several streams: `aggregator(key, value, aggregate)`."""
        return Cogrouped([(self, aggregator)])

    def _spec(
        self,
        prefix: str,
        store: str | None,
        value: Serde[Any] | None,
        cached: bool,
        changelog: bool,
    ) -> StoreSpec:
        return self.builder.store(
            prefix, store, self.key_serde, value, cached=cached, changelog=changelog
        )

    def _table(
        self,
        prefix: str,
        name: str | None,
        operation: TableOperation,
        spec: StoreSpec,
        store: str | None,
    ) -> Table[K, Any]:
        from ottla.streams.table import Table

        builder = self.builder
        node = builder.new_name(prefix, name)
        parent = self.repartitioned(spec.name)
        builder.processor(node, operation, [parent.node], stores=[spec])
        value = builder.outside(spec.value)
        return Table(builder, node, spec.key, value, operation, sources=parent.sources, store=store)

    def repartitioned(self, store: str) -> Stream[K, V]:
        """The stream whose records lie with their keys; its topic is called after the store."""
        prefix = self.name or store
        return self.stream.repartitioned(prefix, key=self.key_serde, value=self.value_serde)


class GroupedTable(Generic[K, V]):
    """A table under other keys: values leave one group and come to another."""

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[K] | None,
        value: Serde[V] | None,
        *,
        name: str | None = None,
    ) -> None:
        self.builder = builder
        self.node = node
        self.key_serde = key
        self.value_serde = value
        self.name = name

    def count(
        self,
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, int]:
        """How many keys of the table are in each group."""
        spec = self._spec(store, Long(), cached, changelog)
        return self._table("KTABLE-AGGREGATE-", name, spec, store, counted, uncounted, zero)

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, V]:
        """`adder(aggregate, new value)`, `subtractor(aggregate, old value)`."""
        spec = self._spec(store, self.value_serde, cached, changelog)
        add, subtract = reducing(adder), reducing(subtractor)
        return self._table("KTABLE-REDUCE-", name, spec, store, add, subtract, None)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *,
        value: Serde[A] | None = None,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, A]:
        """`adder(key, new value, aggregate)`, `subtractor(key, old value, aggregate)`."""
        spec = self._spec(store, value, cached, changelog)
        prefix = "KTABLE-AGGREGATE-"
        return self._table(prefix, name, spec, store, adder, subtractor, initializer)

    def _spec(
        self, store: str | None, value: Serde[Any] | None, cached: bool, changelog: bool
    ) -> StoreSpec:
        return self.builder.store(
            "KTABLE-AGGREGATE-", store, self.key_serde, value, cached=cached, changelog=changelog
        )

    def _table(
        self,
        prefix: str,
        name: str | None,
        spec: StoreSpec,
        store: str | None,
        adder: Aggregator,
        subtractor: Aggregator,
        initializer: Initializer | None,
    ) -> Table[K, Any]:
        from ottla.streams.table import Table

        builder = self.builder
        sink = builder.new_name("KSTREAM-SINK-", None if name is None else f"{name}-sink")
        source = builder.new_name("KSTREAM-SOURCE-", None if name is None else f"{name}-source")
        node = builder.new_name(prefix, name)
        topic = f"{self.name or spec.name}-repartition"
        changed = Changed(builder.inner_value(self.value_serde))
        builder.add(Repartition(source, sink, topic, spec.key, changed, [self.node]))
        operation = AggregateTable(
            spec, adder=adder, subtractor=subtractor, initializer=initializer
        )
        builder.processor(node, operation, [source], stores=[spec])
        sources = frozenset((source,))
        value = builder.outside(spec.value)
        return Table(builder, node, spec.key, value, operation, sources=sources, store=store)
