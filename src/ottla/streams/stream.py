"""Stream: records, one after the other, and what can be done with them. (Kafka: KStream.)

Functions may take (value) or (key, value). An operation that can change the key makes what needs
keys below it repartition; those whose name ends in `_values` leave keys alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.graph import Partitioner, Sink, Supplier
from ottla.engine.records import AnyRecord
from ottla.engine.stateless import (
    Filter,
    FixedKeys,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    Pass,
    Peek,
    SelectKey,
)
from ottla.engine.stores import StoreSpec
from ottla.engine.table_join import INNER, LEFT, OUTER
from ottla.engine.table_steps import SourceTable
from ottla.engine.windows import JoinWindows
from ottla.streams.branches import Branched
from ottla.streams.building import Builder, checked_name
from ottla.streams.global_table import GlobalKTable
from ottla.streams.grouped import GroupedStream
from ottla.streams.stream_joins import joined
from ottla.streams.table import Table

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")

ByValue = Callable[[V], V2]
ByKeyAndValue = Callable[[K, V], V2]


class Stream(Generic[K, V]):
    """`node` is the name of the last node; `sources` are where its records come in.

    `rekeyed`: keys may have changed, so that records need not lie in the partition of their key.
    """

    def __init__(
        self,
        builder: Builder,
        node: str,
        key: Serde[K] | None,
        value: Serde[V] | None,
        *,
        sources: frozenset[str],
        rekeyed: bool = False,
    ) -> None:
        self.builder = builder
        self.node = node
        self.key_serde = key
        self.value_serde = value
        self.sources = sources
        self.rekeyed = rekeyed

    # -- without state

    def filter(
        self, predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> Stream[K, V]:
        """The records for which it holds."""
        node = self._add("KSTREAM-FILTER-", name, lambda: Filter(predicate))
        return self.at(node)

    def filter_not(
        self, predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> Stream[K, V]:
        """The records for which it does not hold."""
        node = self._add("KSTREAM-FILTER-", name, lambda: Filter(predicate, wanted=False))
        return self.at(node)

    def map(
        self,
        mapper: ByValue[V, tuple[K2, V2]] | ByKeyAndValue[K, V, tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """A new key and a new value for each record."""
        node = self._add("KSTREAM-MAP-", name, lambda: Map(mapper))
        return self._new(node, key, value, rekeyed=True)

    def map_values(
        self,
        mapper: ByValue[V, V2] | ByKeyAndValue[K, V, V2],
        *,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """A new value for each record."""
        node = self._add("KSTREAM-MAPVALUES-", name, lambda: MapValues(mapper))
        return self._new(node, self.key_serde, value)

    def flat_map(
        self,
        mapper: ByValue[V, Iterable[tuple[K2, V2]]] | ByKeyAndValue[K, V, Iterable[tuple[K2, V2]]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V2]:
        """Any number of records for each one."""
        node = self._add("KSTREAM-FLATMAP-", name, lambda: FlatMap(mapper))
        return self._new(node, key, value, rekeyed=True)

    def flat_map_values(
        self,
        mapper: ByValue[V, Iterable[V2]] | ByKeyAndValue[K, V, Iterable[V2]],
        *,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> Stream[K, V2]:
        """Any number of values for each record, all under its key."""
        node = self._add("KSTREAM-FLATMAPVALUES-", name, lambda: FlatMapValues(mapper))
        return self._new(node, self.key_serde, value)

    def select_key(
        self,
        selector: ByValue[V, K2] | ByKeyAndValue[K, V, K2],
        *,
        key: Serde[K2] | None = None,
        name: str | None = None,
    ) -> Stream[K2, V]:
        """The same values under other keys."""
        node = self._add("KSTREAM-KEY-SELECT-", name, lambda: SelectKey(selector))
        return self._new(node, key, self.value_serde, rekeyed=True)

    def peek(
        self, action: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> Stream[K, V]:
        """Does something for each record, and hands it on."""
        node = self._add("KSTREAM-PEEK-", name, lambda: Peek(action), pure=False)
        return self.at(node)

    def foreach(
        self, action: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> None:
        """Does something for each record; here the stream ends."""
        self._add("KSTREAM-FOREACH-", name, lambda: Peek(action, last=True), pure=False)

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record, as Kafka's Printed.toSysOut does; here the stream ends."""
        text = self.node if label is None else label

        def show(key: Any, value: Any) -> None:
            print(f"[{text}]: {key}, {value}", flush=True)

        self._add("KSTREAM-PRINTER-", name, lambda: Peek(show, last=True), pure=False)

    def merge(self, other: Stream[K, V], *, name: str | None = None) -> Stream[K, V]:
        """The records of both; no order between them is promised."""
        node = self.builder.new_name("KSTREAM-MERGE-", name)
        self.builder.processor(node, Pass, [self.node, other.node])
        return Stream(
            self.builder,
            node,
            _either(self.key_serde, other.key_serde),
            _either(self.value_serde, other.value_serde),
            sources=self.sources | other.sources,
            rekeyed=self.rekeyed or other.rekeyed,
        )

    def split(self, *, name: str | None = None) -> Branched[K, V]:
        """Begins `split().branch(...).branch(...).default_branch()`."""
        return Branched(self, name)

    # -- to topics

    def to(
        self,
        topic: str | Callable[[AnyRecord], str],
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Writes to a topic, or to the one that a function of the record names."""
        builder = self.builder
        node = builder.new_name("KSTREAM-SINK-", name)
        where = f"the topic {topic}" if isinstance(topic, str) else "the topics of to()"
        builder.add(
            Sink(
                node,
                topic,
                builder.key_serde(key or self.key_serde, where),
                builder.value_serde(value or self.value_serde, where),
                [self.node],
                partitioner,
            )
        )

    def repartition(
        self,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> Stream[K, V]:
        """Through a topic of the application's own, `<application id>-<name>-repartition`."""
        builder = self.builder
        key, value = key or self.key_serde, value or self.value_serde
        source = builder.repartition(
            self.node,
            builder.new_name("KSTREAM-REPARTITION-") if name is None else checked_name(name),
            key,
            value,
            partitions=partitions,
            partitioner=partitioner,
            asked=True,
        )
        return Stream(builder, source, key, value, sources=frozenset((source,)))

    def repartitioned(
        self,
        prefix: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        keyless: bool = False,
    ) -> Stream[K, V]:
        """For what needs records in the partitions of their keys: itself, if they lie there."""
        if not self.rekeyed:
            return self
        key, value = key or self.key_serde, value or self.value_serde
        source = self.builder.repartition(self.node, prefix, key, value, keyless=keyless)
        return Stream(self.builder, source, key, value, sources=frozenset((source,)))

    # -- to tables

    def group_by_key(
        self,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> GroupedStream[K, V]:
        """By the keys that records have; `name` names the repartition topic, if there is one."""
        return GroupedStream(self, key or self.key_serde, value or self.value_serde, name=name)

    def group_by(
        self,
        selector: ByValue[V, K2] | ByKeyAndValue[K, V, K2],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> GroupedStream[K2, V]:
        """By a new key."""
        selected = self.select_key(selector, key=key, name=name)
        return GroupedStream(selected, key, value or self.value_serde, name=name)

    def to_table(
        self,
        *,
        store: str | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> Table[K, V]:
        """Each record as an update of a table: None deletes."""
        builder = self.builder
        node = builder.new_name("KSTREAM-TOTABLE-", name)
        key, value = key or self.key_serde, value or self.value_serde
        spec = builder.store(
            "KSTREAM-TOTABLE-", store, key, value, cached=cached, changelog=changelog
        )
        parent = self.repartitioned(node, key=key, value=value)

        def materialize() -> None:
            builder.graph.add_store(spec)
            builder.graph.connect(node, [spec.name])

        operation = SourceTable(spec, materialize)
        builder.processor(node, operation, [parent.node])
        if store is not None:
            operation.materialize()
        return Table(builder, node, key, value, operation, sources=parent.sources, store=store)

    # -- joins

    def join(
        self,
        other: Stream[K, V2] | Table[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], V3] | Callable[[K, V, V2], V3],
        windows: JoinWindows | None = None,
        *,
        on: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V3]:
        """With a stream, in `windows`; with a table; with a global one, by the key `on` gives.

        `joiner` takes (left, right) or (key, left, right). `store` is what the names of the
        stores begin with, where two streams are joined.
        """
        return joined(
            self, other, joiner, windows, INNER, on=on, value=value, store=store, name=name
        )

    def left_join(
        self,
        other: Stream[K, V2] | Table[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2 | None], V3] | Callable[[K, V, V2 | None], V3],
        windows: JoinWindows | None = None,
        *,
        on: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V3]:
        """As `join`, and what has no partner is joined with None: when none can come any more."""
        return joined(
            self, other, joiner, windows, LEFT, on=on, value=value, store=store, name=name
        )

    def outer_join(
        self,
        other: Stream[K, V2],
        joiner: Callable[[V | None, V2 | None], V3] | Callable[[K, V | None, V2 | None], V3],
        windows: JoinWindows,
        *,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> Stream[K, V3]:
        """As `left_join`, for both sides."""
        return joined(self, other, joiner, windows, OUTER, value=value, store=store, name=name)

    # -- processors

    def process(
        self,
        supplier: Supplier,
        *,
        stores: Sequence[str | StoreSpec] = (),
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[Any, Any]:
        """A processor of one's own: `supplier()` gives one for each task, a class will do.

        `stores` are those that it may use: new ones, or names of those that are there.
        """
        node = self.builder.new_name("KSTREAM-PROCESSOR-", name)
        self.builder.processor(
            node, supplier, [self.node], connected=stores, pure=False, custom=True
        )
        return self._new(node, key, value, rekeyed=True)

    def process_values(
        self,
        supplier: Supplier,
        *,
        stores: Sequence[str | StoreSpec] = (),
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> Stream[K, Any]:
        """A processor that does not change keys: what follows needs no repartitioning."""
        node = self.builder.new_name("KSTREAM-PROCESSVALUES-", name)
        self.builder.processor(
            node,
            lambda: FixedKeys(supplier()),
            [self.node],
            connected=stores,
            pure=False,
            custom=True,
        )
        return self._new(node, self.key_serde, value)

    # -- inside

    def _add(self, prefix: str, name: str | None, supplier: Supplier, *, pure: bool = True) -> str:
        supplier()  # a function that can't be called so is refused now, not in the first task
        node = self.builder.new_name(prefix, name)
        return self.builder.processor(node, supplier, [self.node], pure=pure)

    def at(self, node: str) -> Stream[K, V]:
        """The same stream behind another node."""
        return self._new(node, self.key_serde, self.value_serde)

    def _new(self, node: str, key: Any, value: Any, *, rekeyed: bool = False) -> Stream[Any, Any]:
        return Stream(
            self.builder,
            node,
            key,
            value,
            sources=self.sources,
            rekeyed=self.rekeyed or rekeyed,
        )


def _either(one: Serde[Any] | None, other: Serde[Any] | None) -> Serde[Any] | None:
    """The serde of both; None if they are not alike."""
    return one if type(one) is type(other) else None
