"""A topology, built with streams and tables or node by node; to be run, tested or described.

topology = Topology()
words = topology.stream("text", key=String(), value=String()).flat_map_values(str.split)
counts = words.group_by(lambda word: word, key=String()).count(store="counts")
counts.to_stream().to("counts", value=Long())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ottla.client.serde import Bytes, Serde
from ottla.engine.arity import with_context
from ottla.engine.graph import (
    GlobalTableNode,
    Graph,
    ProcessorSupplier,
    SinkNode,
    SourceNode,
    StreamPartitioner,
    TopologyError,
)
from ottla.engine.records import AnyRecord
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.table_processors import KTableSource
from ottla.streams.global_table import GlobalKTable
from ottla.streams.internal_streams_builder import InternalStreamsBuilder
from ottla.streams.stream import KStream
from ottla.streams.table import KTable
from ottla.streams.topology_description import topology_description

K = TypeVar("K")
V = TypeVar("V")

OFFSET_RESETS = ("earliest", "latest", "none")
Extractor = Callable[..., int]


class Topology:
    """`key` and `value` are the default serdes (Kafka: default.key.serde)."""

    def __init__(self, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> None:
        self.builder = InternalStreamsBuilder(key, value)

    @property
    def graph(self) -> Graph:
        return self.builder.graph

    # -- the DSL

    def stream(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        pattern: str | None = None,
        timestamp: Extractor | None = None,
        offset_reset: str | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """The records of one topic, of several, or of all whose names match `pattern`.

        `timestamp(record)` or `timestamp(record, stream_time)` extracts the records' timestamps.
        """
        builder = self.builder
        node = builder.new_name("KSTREAM-SOURCE-", name)
        names = (topics,) if isinstance(topics, str) else tuple(topics or ())
        if not names and pattern is None:
            raise TopologyError("You must provide at least one topic")
        if names and pattern is not None:
            raise TopologyError("topics or a pattern can be given, not both")
        source = SourceNode(
            node,
            names,
            key or builder.key or Bytes(),
            value or builder.value or Bytes(),
            pattern=pattern,
            extractor=None if timestamp is None else with_context(timestamp),
            offset_reset=_checked_reset(offset_reset),
        )
        node = self._same_source(source) or builder.add(source)
        return KStream(builder, node, source.key, source.value, sources=frozenset((node,)))

    def table(
        self,
        topic: str,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        store: str | None = None,
        cached: bool = True,
        changelog: bool = True,
        timestamp: Extractor | None = None,
        offset_reset: str | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """A topic as a table with the last value of each key; None deletes."""
        builder = self.builder
        key_serde, value_serde = key or builder.key or Bytes(), value or builder.value or Bytes()
        spec = builder.store(
            f"{topic}-", store, key_serde, value_serde, cached=cached, changelog=changelog
        )
        above = builder.new_name("KSTREAM-SOURCE-", None if name is None else f"{name}-source")
        node = builder.new_name("KTABLE-SOURCE-", name)
        builder.add(
            SourceNode(
                above,
                (topic,),
                key_serde,
                value_serde,
                extractor=None if timestamp is None else with_context(timestamp),
                offset_reset=_checked_reset(offset_reset),
                table=True,
            )
        )

        def materialize() -> None:
            builder.graph.add_store(spec)
            builder.graph.connect(node, [spec.name])

        operation = KTableSource(spec, materialize)
        builder.processor(node, operation, [above])
        if store is not None:
            operation.materialize()
        sources = frozenset((above,))
        return KTable(
            builder, node, key_serde, value_serde, operation, sources=sources, store=store
        )

    def global_table(
        self,
        topic: str,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        store: str | None = None,
        timestamp: Extractor | None = None,
        name: str | None = None,
    ) -> GlobalKTable[K, V]:
        """A table of which every task sees all partitions: joins use any key, without
        repartitioning."""
        builder = self.builder
        key_serde, value_serde = key or builder.key or Bytes(), value or builder.value or Bytes()
        spec = StoreSpec(
            builder.new_store_name(f"{topic}-", store),
            StoreKind.TIMESTAMPED_KEY_VALUE,
            key_serde,
            value_serde,
            changelog=False,
            cached=False,
        )
        above = builder.new_name("KSTREAM-SOURCE-", None if name is None else f"{name}-source")
        node = builder.new_name("KTABLE-SOURCE-", name)
        extractor = None if timestamp is None else with_context(timestamp)
        builder.graph.add_global(
            GlobalTableNode(above, node, topic, spec, key_serde, value_serde, extractor)
        )
        return GlobalKTable(builder, spec.name, key_serde, value_serde)

    # -- the Processor API, node by node

    def add_source(
        self,
        name: str,
        *topics: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        pattern: str | None = None,
        timestamp: Extractor | None = None,
        offset_reset: str | None = None,
    ) -> Topology:
        builder = self.builder
        builder.add(
            SourceNode(
                name,
                topics,
                key or builder.key or Bytes(),
                value or builder.value or Bytes(),
                pattern=pattern,
                extractor=None if timestamp is None else with_context(timestamp),
                offset_reset=_checked_reset(offset_reset),
            )
        )
        return self

    def add_processor(
        self,
        name: str,
        supplier: ProcessorSupplier,
        *parents: str,
        stores: Sequence[str | StoreSpec] = (),
    ) -> Topology:
        """`supplier()` returns a new Processor for each task; a class will do."""
        self.builder.processor(name, supplier, parents, connected=stores, pure=False, custom=True)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | Callable[[AnyRecord], str],
        *parents: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        builder = self.builder
        key, value = key or builder.key or Bytes(), value or builder.value or Bytes()
        builder.add(SinkNode(name, topic, key, value, list(parents), partitioner))
        return self

    def add_store(self, store: StoreSpec, *processors: str) -> Topology:
        """Adds a store for processors (ottla.engine.stores) and connects it to some of them."""
        self.graph.add_store(store)
        for processor in processors:
            self.graph.connect(processor, [store.name])
        return self

    def connect(self, processor: str, *stores: str) -> Topology:
        self.graph.connect(processor, stores)
        return self

    def describe(self) -> str:
        """The nodes and their connections, as Kafka's TopologyDescription prints them."""
        return topology_description(self.graph)

    def _same_source(self, wanted: SourceNode) -> str | None:
        """Two streams of the same topics share a source, as in Kafka."""
        for source in self.graph.sources():
            if source.pattern != wanted.pattern or set(source.topics) != set(wanted.topics):
                if set(source.topics) & set(wanted.topics):
                    raise TopologyError(
                        "Two source nodes are subscribed to overlapping but not equal input topics"
                    )
                continue
            if source.offset_reset != wanted.offset_reset:
                raise TopologyError(
                    f"Can't configure different offset resets on the same input topic(s) "
                    f"{list(wanted.topics) or wanted.pattern}"
                )
            for mine, other in ((source.key, wanted.key), (source.value, wanted.value)):
                if type(mine) is not type(other):
                    raise TopologyError(
                        f"{list(wanted.topics) or wanted.pattern} is read twice, with different "
                        f"serdes: {type(mine).__name__} and {type(other).__name__}"
                    )
            return source.name
        return None


def _checked_reset(reset: str | None) -> str | None:
    if reset is not None and reset not in OFFSET_RESETS:
        raise TopologyError(f"offset_reset is one of {', '.join(OFFSET_RESETS)}, not {reset!r}")
    return reset
