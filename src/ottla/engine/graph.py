"""A topology as plain data: nodes in the order in which they were added.

The DSL writes it, subtopologies.py cuts it, task.py runs the parts, topology_description.py in
streams prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.client.serde import Serde
from ottla.engine.processors import Processor
from ottla.engine.records import AnyRecord
from ottla.engine.serde_config import SerdeConfig
from ottla.engine.stores import StoreSpec

ProcessorSupplier = Callable[[], Processor[Any, Any]]
TimestampExtractor = Callable[[AnyRecord, int], int]
"""Takes the record as it was read and the stream time so far (-1: none)."""
StreamPartitioner = Callable[[str, Any, Any, int], int | Iterable[int] | None]
"""Takes topic, key, value and the partition count. None partitions by the key; several partitions
get a copy each; an empty iterable drops the record."""


class TopologyError(ValueError):
    """An invalid topology, in Kafka's words. (Kafka: TopologyException.)"""

    def __init__(self, message: str) -> None:
        super().__init__(f"Invalid topology: {message}")


@dataclass(slots=True)
class SourceNode:
    name: str
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    pattern: str | None = None
    """A regular expression for topic names; then `topics` is empty."""
    extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    """earliest, latest, or None for the application's setting."""
    table: bool = False
    """Other streams look up its records: they wait while much of this topic is unread."""

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class ProcessorNode:
    name: str
    supplier: ProcessorSupplier
    parents: list[str]
    stores: list[str] = field(default_factory=list)
    pure: bool = True
    """Running it twice for a record has no visible effect: it does not print or call outside."""
    custom: bool = False
    """A user's processor (Processor API): it may schedule, so it needs a task with state."""


@dataclass(slots=True)
class SinkNode:
    name: str
    topic: str | Callable[[AnyRecord], str]
    key: Serde[Any]
    value: Serde[Any]
    parents: list[str]
    partitioner: StreamPartitioner | None = None

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class RepartitionNode:
    """Ends a sub-topology and begins the next one: a sink and a source with a topic between them.

    `name` is the source's, the parent of what follows. The topic's name lacks the application id
    here. `explicit` means that the user called `repartition()`, so the topic must exist; otherwise
    Spark's shuffle may replace it (see Prefix in subtopologies.py).
    """

    name: str
    sink_name: str
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    parents: list[str]
    partitions: int | None = None
    """None: as many as the largest input of the sub-topology that writes it."""
    partitioner: StreamPartitioner | None = None
    explicit: bool = False

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class GlobalTableNode:
    """A topic of which every task sees all partitions."""

    name: str
    processor_name: str
    topic: str
    store: StoreSpec
    key: Serde[Any]
    value: Serde[Any]
    extractor: TimestampExtractor | None = None
    place: int = 0
    """How many nodes were added before it: Kafka numbers sub-topologies by this."""

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


Node = SourceNode | ProcessorNode | SinkNode | RepartitionNode


class Graph:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.globals: dict[str, GlobalTableNode] = {}
        """By store name."""
        self.copartitioned: list[frozenset[str]] = []
        """Names of sources and repartitions that must have equally many partitions."""
        self.serdes = SerdeConfig()
        """Configures the serdes that processors hold."""

    def configured(self, settings: Mapping[str, Any]) -> Graph:
        """A copy whose serdes have the application's settings."""
        made = Graph()
        serdes = made.serdes = SerdeConfig(settings)
        made.copartitioned = self.copartitioned
        made.stores = {name: spec.configured(serdes) for name, spec in self.stores.items()}
        made.nodes = {
            name: node
            if isinstance(node, ProcessorNode)
            else replace(node, key=serdes.key(node.key), value=serdes.value(node.value))
            for name, node in self.nodes.items()
        }
        made.globals = {
            name: replace(
                table,
                store=table.store.configured(serdes),
                key=serdes.key(table.key),
                value=serdes.value(table.value),
            )
            for name, table in self.globals.items()
        }
        return made

    def add(self, node: Node) -> None:
        if node.name in self.nodes:
            raise TopologyError(f"Processor {node.name} is already added.")
        for parent in parents_of(node):
            if parent == node.name:
                raise TopologyError(f"Processor {node.name} cannot be a predecessor of itself.")
            if parent not in self.nodes:
                raise TopologyError(
                    f"Predecessor processor {parent} is not added yet for {node.name}"
                )
            if isinstance(self.nodes[parent], SinkNode):
                raise TopologyError(f"Sink {parent} cannot be a predecessor of {node.name}")
        if isinstance(node, SourceNode):
            self._check_topics(node.topics)
        self.nodes[node.name] = node

    def add_store(self, spec: StoreSpec) -> None:
        present = self.stores.get(spec.name)
        if present is not None and present is not spec:
            raise TopologyError(f"A different StateStore has already been added: {spec.name}")
        if spec.name in self.globals:
            raise TopologyError(f"StateStore {spec.name} is already added.")
        self.stores[spec.name] = spec

    def add_global(self, table: GlobalTableNode) -> None:
        if table.store.name in self.stores or table.store.name in self.globals:
            raise TopologyError(f"StateStore {table.store.name} is already added.")
        self._check_topics((table.topic,))
        table.place = len(self.nodes)
        self.globals[table.store.name] = table

    def connect(self, processor: str, stores: Iterable[str]) -> None:
        node = self.nodes.get(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"Processor {processor} is not added yet.")
        for store in stores:
            if store not in self.stores and store not in self.globals:
                raise TopologyError(f"StateStore {store} is not added yet.")
            if store not in node.stores:
                node.stores.append(store)

    def children(self) -> Mapping[str, list[Node]]:
        """The children of each node, in the order in which they were added."""
        found: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for parent in parents_of(node):
                found[parent].append(node)
        return found

    def sources(self) -> Iterator[SourceNode]:
        return (node for node in self.nodes.values() if isinstance(node, SourceNode))

    def _check_topics(self, topics: Iterable[str]) -> None:
        taken = {topic for source in self.sources() for topic in source.topics}
        taken.update(table.topic for table in self.globals.values())
        for topic in topics:
            if topic in taken:
                raise TopologyError(f"Topic {topic} has already been registered by another source.")


def parents_of(node: Node) -> list[str]:
    return [] if isinstance(node, SourceNode) else node.parents


def internal_topic(application_id: str, name: str) -> str:
    """The names of repartition and changelog topics begin with the application id."""
    return f"{application_id}-{name}" if application_id else name


def changelog_topic(application_id: str, store: str) -> str:
    return internal_topic(application_id, f"{store}-changelog")
