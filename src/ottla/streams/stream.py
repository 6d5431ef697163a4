"""KStream: a stream of records and its operations.

Functions may take (value) or (key, value). After an operation that can change the key, operations
that need the key repartition; those whose name ends in `_values` keep the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from ottla.client.serde import Serde
from ottla.engine.graph import ProcessorSupplier, SinkNode, StreamPartitioner
from ottla.engine.records import AnyRecord
from ottla.engine.stateless import (
    FixedKeyProcessor,
    KStreamFilter,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapValues,
    KStreamPassThrough,
    KStreamPeek,
    KStreamSelectKey,
)
from ottla.engine.stores import StoreSpec
from ottla.engine.table_join import INNER, LEFT, OUTER
from ottla.engine.table_processors import KTableSource
from ottla.engine.windows import JoinWindows
from ottla.streams.branched_stream import BranchedKStream
from ottla.streams.global_table import GlobalKTable
from ottla.streams.grouped import KGroupedStream
from ottla.streams.internal_streams_builder import InternalStreamsBuilder, checked_name
from ottla.streams.stream_joins import join_stream
from ottla.streams.table import KTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")

ByValue = Callable[[V], V2]
ByKeyAndValue = Callable[[K, V], V2]


class KStream(Generic[K, V]):
    """`node` is the name of the last node; `sources` are the names of its sources.

    `rekeyed`: keys may have changed, so a record may not be in the partition of its key.
    """

    def __init__(
        self,
        builder: InternalStreamsBuilder,
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
    ) -> KStream[K, V]:
        """The records for which the predicate holds."""
        node = self._add("KSTREAM-FILTER-", name, lambda: KStreamFilter(predicate))
        return self.at(node)

    def filter_not(
        self, predicate: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> KStream[K, V]:
        """The records for which the predicate does not hold."""
        node = self._add("KSTREAM-FILTER-", name, lambda: KStreamFilter(predicate, wanted=False))
        return self.at(node)

    def map(
        self,
        mapper: ByValue[V, tuple[K2, V2]] | ByKeyAndValue[K, V, tuple[K2, V2]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """A new key and a new value for each record."""
        node = self._add("KSTREAM-MAP-", name, lambda: KStreamMap(mapper))
        return self._new(node, key, value, rekeyed=True)

    def map_values(
        self,
        mapper: ByValue[V, V2] | ByKeyAndValue[K, V, V2],
        *,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """A new value for each record."""
        node = self._add("KSTREAM-MAPVALUES-", name, lambda: KStreamMapValues(mapper))
        return self._new(node, self.key_serde, value)

    def flat_map(
        self,
        mapper: ByValue[V, Iterable[tuple[K2, V2]]] | ByKeyAndValue[K, V, Iterable[tuple[K2, V2]]],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Any number of records for each record."""
        node = self._add("KSTREAM-FLATMAP-", name, lambda: KStreamFlatMap(mapper))
        return self._new(node, key, value, rekeyed=True)

    def flat_map_values(
        self,
        mapper: ByValue[V, Iterable[V2]] | ByKeyAndValue[K, V, Iterable[V2]],
        *,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Any number of values for each record, all under its key."""
        node = self._add("KSTREAM-FLATMAPVALUES-", name, lambda: KStreamFlatMapValues(mapper))
        return self._new(node, self.key_serde, value)

    def select_key(
        self,
        selector: ByValue[V, K2] | ByKeyAndValue[K, V, K2],
        *,
        key: Serde[K2] | None = None,
        name: str | None = None,
    ) -> KStream[K2, V]:
        """The same values under other keys."""
        node = self._add("KSTREAM-KEY-SELECT-", name, lambda: KStreamSelectKey(selector))
        return self._new(node, key, self.value_serde, rekeyed=True)

    def peek(
        self, action: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> KStream[K, V]:
        """Calls `action` for each record and forwards it."""
        node = self._add("KSTREAM-PEEK-", name, lambda: KStreamPeek(action), pure=False)
        return self.at(node)

    def foreach(
        self, action: ByValue[V, Any] | ByKeyAndValue[K, V, Any], *, name: str | None = None
    ) -> None:
        """Calls `action` for each record; ends the stream."""
        self._add("KSTREAM-FOREACH-", name, lambda: KStreamPeek(action, last=True), pure=False)

    def print(self, label: str | None = None, *, name: str | None = None) -> None:
        """Prints each record, as Kafka's Printed.toSysOut does; ends the stream."""
        text = self.node if label is None else label

        def show(key: Any, value: Any) -> None:
            print(f"[{text}]: {key}, {value}", flush=True)

        self._add("KSTREAM-PRINTER-", name, lambda: KStreamPeek(show, last=True), pure=False)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """The records of both streams, without an order between them."""
        node = self.builder.new_name("KSTREAM-MERGE-", name)
        self.builder.processor(node, KStreamPassThrough, [self.node, other.node])
        return KStream(
            self.builder,
            node,
            _either(self.key_serde, other.key_serde),
            _either(self.value_serde, other.value_serde),
            sources=self.sources | other.sources,
            rekeyed=self.rekeyed or other.rekeyed,
        )

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Starts `split().branch(...).branch(...).default_branch()`."""
        return BranchedKStream(self, name)

    # -- to topics

    def to(
        self,
        topic: str | Callable[[AnyRecord], str],
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Writes to a topic, or to the one that a function of the record returns."""
        builder = self.builder
        node = builder.new_name("KSTREAM-SINK-", name)
        where = f"the topic {topic}" if isinstance(topic, str) else "the topics of to()"
        builder.add(
            SinkNode(
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
        partitioner: StreamPartitioner | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Writes to and reads from `<application id>-<name>-repartition`."""
        builder = self.builder
        key, value = key or self.key_serde, value or self.value_serde
        source = builder.repartition(
            self.node,
            builder.new_name("KSTREAM-REPARTITION-") if name is None else checked_name(name),
            key,
            value,
            partitions=partitions,
            partitioner=partitioner,
            explicit=True,
        )
        return KStream(builder, source, key, value, sources=frozenset((source,)))

    def repartitioned(
        self,
        prefix: str,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        keyless: bool = False,
    ) -> KStream[K, V]:
        """The stream partitioned by key; the stream itself if it is already."""
        if not self.rekeyed:
            return self
        key, value = key or self.key_serde, value or self.value_serde
        source = self.builder.repartition(self.node, prefix, key, value, keyless=keyless)
        return KStream(self.builder, source, key, value, sources=frozenset((source,)))

    # -- to tables

    def group_by_key(
        self,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K, V]:
        """Groups by the records' keys; `name` names the repartition topic, if there is one."""
        return KGroupedStream(self, key or self.key_serde, value or self.value_serde, name=name)

    def group_by(
        self,
        selector: ByValue[V, K2] | ByKeyAndValue[K, V, K2],
        *,
        key: Serde[K2] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Groups by a new key."""
        selected = self.select_key(selector, key=key, name=name)
        return KGroupedStream(selected, key, value or self.value_serde, name=name)

    def to_table(
        self,
        *,
        store: str | None = None,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        cached: bool = True,
        changelog: bool = True,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Each record updates a table; None deletes."""
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

        operation = KTableSource(spec, materialize)
        builder.processor(node, operation, [parent.node])
        if store is not None:
            operation.materialize()
        return KTable(builder, node, key, value, operation, sources=parent.sources, store=store)

    # -- joins

    def join(
        self,
        other: KStream[K, V2] | KTable[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], V3] | Callable[[K, V, V2], V3],
        windows: JoinWindows | None = None,
        *,
        on: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KStream[K, V3]:
        """Joins with a stream in `windows`, with a table, or with a global table by the key `on`.

        `joiner` takes (left, right) or (key, left, right). `store` is the prefix of the stores'
        names in a join of two streams.
        """
        return join_stream(
            self, other, joiner, windows, INNER, on=on, value=value, store=store, name=name
        )

    def left_join(
        self,
        other: KStream[K, V2] | KTable[K, V2] | GlobalKTable[K2, V2],
        joiner: Callable[[V, V2 | None], V3] | Callable[[K, V, V2 | None], V3],
        windows: JoinWindows | None = None,
        *,
        on: ByValue[V, K2] | ByKeyAndValue[K, V, K2] | None = None,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KStream[K, V3]:
        """Like `join`; a record without a partner is joined with None once none can arrive."""
        return join_stream(
            self, other, joiner, windows, LEFT, on=on, value=value, store=store, name=name
        )

    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], V3] | Callable[[K, V | None, V2 | None], V3],
        windows: JoinWindows,
        *,
        value: Serde[V3] | None = None,
        store: str | None = None,
        name: str | None = None,
    ) -> KStream[K, V3]:
        """Like `left_join`, for both sides."""
        return join_stream(self, other, joiner, windows, OUTER, value=value, store=store, name=name)

    # -- processors

    def process(
        self,
        supplier: ProcessorSupplier,
        *,
        stores: Sequence[str | StoreSpec] = (),
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """A user's processor: `supplier()` returns one for each task; a class will do.

        `stores` are those that it may use: new ones, or names of existing ones.
        """
        node = self.builder.new_name("KSTREAM-PROCESSOR-", name)
        self.builder.processor(
            node, supplier, [self.node], connected=stores, pure=False, custom=True
        )
        return self._new(node, key, value, rekeyed=True)

    def process_values(
        self,
        supplier: ProcessorSupplier,
        *,
        stores: Sequence[str | StoreSpec] = (),
        value: Serde[Any] | None = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """A processor that does not change keys, so what follows needs no repartitioning."""
        node = self.builder.new_name("KSTREAM-PROCESSVALUES-", name)
        self.builder.processor(
            node,
            lambda: FixedKeyProcessor(supplier()),
            [self.node],
            connected=stores,
            pure=False,
            custom=True,
        )
        return self._new(node, self.key_serde, value)

    # -- inside

    def _add(
        self, prefix: str, name: str | None, supplier: ProcessorSupplier, *, pure: bool = True
    ) -> str:
        supplier()  # rejects a function with a wrong signature now, not in the first task
        node = self.builder.new_name(prefix, name)
        return self.builder.processor(node, supplier, [self.node], pure=pure)

    def at(self, node: str) -> KStream[K, V]:
        """The same stream after another node."""
        return self._new(node, self.key_serde, self.value_serde)

    def _new(self, node: str, key: Any, value: Any, *, rekeyed: bool = False) -> KStream[Any, Any]:
        return KStream(
            self.builder,
            node,
            key,
            value,
            sources=self.sources,
            rekeyed=self.rekeyed or rekeyed,
        )


def _either(one: Serde[Any] | None, other: Serde[Any] | None) -> Serde[Any] | None:
    """The serde of both; None if they differ in type."""
    return one if type(one) is type(other) else None
