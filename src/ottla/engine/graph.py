"""A topology as plain data: nodes in the order in which they were added.

The DSL writes it, subtopologies.py cuts it, task.py runs the pieces, describe.py prints it.
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

Supplier = Callable[[], Processor[Any, Any]]
TimestampExtractor = Callable[[AnyRecord, int], int]
"""Given the record as it was read, and the stream time so far (-1: none)."""
Partitioner = Callable[[str, Any, Any, int], int | Iterable[int] | None]
"""Topic, key, value, count of partitions; None: by the key. Several: a copy to each; none: drop."""


class TopologyError(ValueError):
    """A topology that can't be, in Kafka's words. (Kafka: TopologyException.)"""

    def __init__(self, message: str) -> None:
        super().__init__(f"Invalid topology: {message}")


@dataclass(slots=True)
class Source:
    name: str
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    pattern: str | None = None
    """A regular expression for names of topics; then `topics` is empty."""
    extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    """earliest, latest, or what the application says."""
    table: bool = False
    """Others look its records up: while much of it is unread, what else there is waits."""

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class ProcessorNode:
    name: str
    supplier: Supplier
    parents: list[str]
    stores: list[str] = field(default_factory=list)
    pure: bool = True
    """Nobody would see it if it ran twice for a record: no printing, no call to the outside."""
    custom: bool = False
    """Written by the user against the Processor API: it may schedule, so that it needs a state."""


@dataclass(slots=True)
class Sink:
    name: str
    topic: str | Callable[[AnyRecord], str]
    key: Serde[Any]
    value: Serde[Any]
    parents: list[str]
    partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class Repartition:
    """Ends a sub-topology and begins the next one: a sink and a source with a topic between them.

    `name` is the source's: what follows has it as parent. The topic's name goes without the
    application id here. `asked`: by `repartition()`, so that the topic is really there; else it
    may be a shuffle (see Prefix in subtopologies.py).
    """

    name: str
    sink_name: str
    topic: str
    key: Serde[Any]
    value: Serde[Any]
    parents: list[str]
    partitions: int | None = None
    """None: as many as the inputs of the sub-topology that writes it have."""
    partitioner: Partitioner | None = None
    asked: bool = False

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


@dataclass(slots=True)
class GlobalTable:
    """A topic that every task has whole."""

    name: str
    processor_name: str
    topic: str
    store: StoreSpec
    key: Serde[Any]
    value: Serde[Any]
    extractor: TimestampExtractor | None = None
    place: int = 0
    """How many nodes were there before it: Kafka numbers it so."""

    def __post_init__(self) -> None:
        self.key = self.key.configured({}, is_key=True)


Node = Source | ProcessorNode | Sink | Repartition


class Graph:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.globals: dict[str, GlobalTable] = {}
        """By the name of the store."""
        self.copartitioned: list[frozenset[str]] = []
        """Names of sources and repartitions that must have equally many partitions."""
        self.serdes = SerdeConfig()
        """What serdes that processors keep are configured by."""

    def configured(self, settings: Mapping[str, Any]) -> Graph:
        """The same, with the settings of an application in all serdes."""
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
            if isinstance(self.nodes[parent], Sink):
                raise TopologyError(f"Sink {parent} cannot be a predecessor of {node.name}")
        if isinstance(node, Source):
            self._check_topics(node.topics)
        self.nodes[node.name] = node

    def add_store(self, spec: StoreSpec) -> None:
        present = self.stores.get(spec.name)
        if present is not None and present is not spec:
            raise TopologyError(f"A different StateStore has already been added: {spec.name}")
        if spec.name in self.globals:
            raise TopologyError(f"StateStore {spec.name} is already added.")
        self.stores[spec.name] = spec

    def add_global(self, table: GlobalTable) -> None:
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
        """Of each node, in the order in which they were added."""
        found: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for parent in parents_of(node):
                found[parent].append(node)
        return found

    def sources(self) -> Iterator[Source]:
        return (each for each in self.nodes.values() if isinstance(each, Source))

    def _check_topics(self, topics: Iterable[str]) -> None:
        taken = {topic for each in self.sources() for topic in each.topics}
        taken.update(each.topic for each in self.globals.values())
        for topic in topics:
            if topic in taken:
                raise TopologyError(f"Topic {topic} has already been registered by another source.")


def parents_of(node: Node) -> list[str]:
    return [] if isinstance(node, Source) else node.parents


def internal_topic(application_id: str, name: str) -> str:
    """Repartition topics and changelogs carry the application's id in front."""
    return f"{application_id}-{name}" if application_id else name


def changelog_topic(application_id: str, store: str) -> str:
    return internal_topic(application_id, f"{store}-changelog")
