"""Grouped streams and tables, which are counted, reduced or aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.serde import Long, Serde
from ottla.engine.aggregates import (
    Aggregator,
    Initializer,
    KStreamAggregate,
    KTableAggregate,
    count_aggregator,
    count_initializer,
    count_subtractor,
    reduce_aggregator,
)
from ottla.engine.changed_serde import ChangedSerde
from ottla.engine.graph import RepartitionNode
from ottla.engine.stores import StoreSpec
from ottla.engine.views import TableOperation
from ottla.engine.windows import AggregateWindows
from ottla.streams.cogrouped import CogroupedKStream
from ottla.streams.internal_streams_builder import InternalStreamsBuilder
from ottla.streams.windowed import WindowedKStream

if TYPE_CHECKING:
    from ottla.streams.stream import KStream
    from ottla.streams.table import KTable

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")


class KGroupedStream(Generic[K, V]):
    """`name` names the repartition topic, if there is one; by default the store does."""

    def __init__(
        self,
        stream: KStream[K, V],
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
    ) -> KTable[K, int]:
        """The number of records with a non-null value by key."""
        spec = self._spec("KSTREAM-AGGREGATE-", store, Long(), cached, changelog)
        operation = KStreamAggregate(spec, count_aggregator, count_initializer)
        return self._table("KSTREAM-AGGREGATE-", name, operation, spec, store)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[K, V]:
        """`reducer(aggregate, value)`; the first value is the first aggregate."""
        spec = self._spec("KSTREAM-REDUCE-", store, self.value_serde, cached, changelog)
        operation = KStreamAggregate(spec, reduce_aggregator(reducer), None)
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
    ) -> KTable[K, A]:
        """`aggregator(key, value, aggregate)`, starting with `initializer()`."""
        spec = self._spec("KSTREAM-AGGREGATE-", store, value, cached, changelog)
        operation = KStreamAggregate(spec, aggregator, initializer)
        return self._table("KSTREAM-AGGREGATE-", name, operation, spec, store)

    def windowed_by(self, windows: AggregateWindows) -> WindowedKStream[K, V]:
        """`tumbling(...)`, `hopping(...)`, `sliding(...)`, `session(...)`, `unlimited()`."""
        return WindowedKStream(self, windows)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedKStream[K, A]:
        """Starts an aggregate of several streams: `aggregator(key, value, aggregate)`."""
        return CogroupedKStream([(self, aggregator)])

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
    ) -> KTable[K, Any]:
        from ottla.streams.table import KTable

        builder = self.builder
        node = builder.new_name(prefix, name)
        parent = self.repartitioned(spec.name)
        builder.processor(node, operation, [parent.node], stores=[spec])
        value = builder.outside(spec.value)
        return KTable(
            builder, node, spec.key, value, operation, sources=parent.sources, store=store
        )

    def repartitioned(self, store: str) -> KStream[K, V]:
        """The stream partitioned by key; a repartition topic is named after the store."""
        prefix = self.name or store
        return self.stream.repartitioned(prefix, key=self.key_serde, value=self.value_serde)


class KGroupedTable(Generic[K, V]):
    """A table grouped by another key: an update moves a value from one group to another."""

    def __init__(
        self,
        builder: InternalStreamsBuilder,
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
    ) -> KTable[K, int]:
        """The number of the table's keys in each group."""
        spec = self._spec(store, Long(), cached, changelog)
        return self._table(
            "KTABLE-AGGREGATE-",
            name,
            spec,
            store,
            count_aggregator,
            count_subtractor,
            count_initializer,
        )

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[K, V]:
        """`adder(aggregate, new value)`, `subtractor(aggregate, old value)`."""
        spec = self._spec(store, self.value_serde, cached, changelog)
        add, subtract = reduce_aggregator(adder), reduce_aggregator(subtractor)
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
    ) -> KTable[K, A]:
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
    ) -> KTable[K, Any]:
        from ottla.streams.table import KTable

        builder = self.builder
        sink = builder.new_name("KSTREAM-SINK-", None if name is None else f"{name}-sink")
        source = builder.new_name("KSTREAM-SOURCE-", None if name is None else f"{name}-source")
        node = builder.new_name(prefix, name)
        topic = f"{self.name or spec.name}-repartition"
        changed = ChangedSerde(builder.inner_value(self.value_serde))
        builder.add(RepartitionNode(source, sink, topic, spec.key, changed, [self.node]))
        operation = KTableAggregate(
            spec, adder=adder, subtractor=subtractor, initializer=initializer
        )
        builder.processor(node, operation, [source], stores=[spec])
        sources = frozenset((source,))
        value = builder.outside(spec.value)
        return KTable(builder, node, spec.key, value, operation, sources=sources, store=store)
