"""Cuts a graph into sub-topologies: each is one Spark query, with one task per partition.

As in Kafka, nodes belong together if one forwards to the other or if they share a store, and a
repartition separates them. Unlike Kafka, there is no repartition topic after a sub-topology that is
stateless and only rekeys records: it becomes a `Prefix` of the next one, and Spark's shuffle moves
the rows to their tasks.

    a --> select_key --> count --> to         one sub-topology with the prefix a --> select_key
    a --> count --> group_by --> count        two sub-topologies with a topic between them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.engine.graph import (
    GlobalTableNode,
    Graph,
    Node,
    ProcessorNode,
    RepartitionNode,
    SinkNode,
    SourceNode,
    parents_of,
)
from ottla.engine.serde_config import SerdeConfig
from ottla.engine.stores import StoreSpec


@dataclass(slots=True)
class Subtopology:
    """`number` is Kafka's: the task id is `<number>_<partition>`."""

    number: int
    sources: list[SourceNode] = field(default_factory=list)
    repartitions: list[RepartitionNode] = field(default_factory=list)
    """Those it reads: from a topic, unless one of the prefixes produces the rows."""
    prefixes: list[Prefix] = field(default_factory=list)
    nodes: list[ProcessorNode] = field(default_factory=list)
    """In the order of the topology: parents first."""
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    globals: dict[str, GlobalTableNode] = field(default_factory=dict)
    sinks: list[SinkNode] = field(default_factory=list)
    rekeyed: list[RepartitionNode] = field(default_factory=list)
    """The repartitions it writes: to the shuffle in a prefix, otherwise to a topic."""
    order: list[str] = field(default_factory=list)
    """The names of all nodes in the order they were added, in which records are forwarded."""
    serdes: SerdeConfig = field(default_factory=SerdeConfig)

    @property
    def stateful(self) -> bool:
        """False: its rows can be processed wherever they are read."""
        return bool(self.stores) or self.custom

    @property
    def custom(self) -> bool:
        """True if it has a user's processor, which may schedule punctuations."""
        return any(node.custom for node in self.nodes)

    @property
    def shuffled(self) -> set[str]:
        """The names of the repartitions whose rows the prefixes produce."""
        return {node.name for prefix in self.prefixes for node in prefix.rekeyed}

    @property
    def internal_topics(self) -> list[RepartitionNode]:
        """The repartitions it reads from topics; their names lack the application id."""
        return [
            repartition
            for repartition in self.repartitions
            if repartition.name not in self.shuffled
        ]


Prefix = Subtopology
"""A stateless sub-topology before another one, whose `repartitions` are its `rekeyed`."""


def subtopologies(graph: Graph) -> list[Subtopology]:
    """The sub-topologies to run, in order, without those that are only prefixes."""
    groups = node_groups(graph).items()
    pieces = {number: _piece(graph, number, names) for number, names in groups}
    writers = {node.name: piece.number for piece in pieces.values() for node in piece.rekeyed}
    served: dict[int, set[str]] = {number: set() for number in pieces}
    for piece in pieces.values():
        read: dict[int, list[RepartitionNode]] = {}
        for repartition in piece.repartitions:
            if not repartition.explicit:
                read.setdefault(writers[repartition.name], []).append(repartition)
        for number, repartitions in read.items():
            if _may_shuffle(graph, pieces[number], repartitions):
                piece.prefixes.append(_prefix(graph, pieces[number], repartitions))
                served[number].update(node.name for node in repartitions)
    left = (_without(graph, piece, served[number]) for number, piece in pieces.items())
    return [piece for piece in left if piece is not None]


def node_groups(graph: Graph) -> dict[int, list[str]]:
    """The node names of each sub-topology, by Kafka's numbers."""
    return {
        number: group
        for number, group in enumerate(numbered_subtopologies(graph))
        if isinstance(group, list)
    }


def numbered_subtopologies(graph: Graph) -> list[list[str] | GlobalTableNode]:
    """Sub-topologies and global tables in Kafka's numbering.

    A repartition has its own name in the sub-topology that reads it, and its sink's name in the one
    that writes it.
    """
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            name = above[name]
        return name

    by_store: dict[str, str] = {}
    for node in graph.nodes.values():
        face = node.sink_name if isinstance(node, RepartitionNode) else node.name
        for parent in parents_of(node):
            above[root(face)] = root(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            if store in graph.stores:
                above[root(node.name)] = root(by_store.setdefault(store, node.name))
    found: dict[str, list[str]] = {}
    places: list[tuple[int, list[str] | GlobalTableNode]] = []
    for index, node in enumerate(graph.nodes.values()):
        faces = (node.sink_name, node.name) if isinstance(node, RepartitionNode) else (node.name,)
        for face in faces:
            if root(face) not in found:
                found[root(face)] = []
                places.append((index, found[root(face)]))
            found[root(face)].append(face)
    places.extend((table.place - 1, table) for table in graph.globals.values())
    return [group for _, group in sorted(places, key=lambda placed: placed[0])]


def _piece(graph: Graph, number: int, names: Iterable[str]) -> Subtopology:
    piece = Subtopology(number, order=list(names), serdes=graph.serdes)
    by_sink = {
        node.sink_name: node for node in graph.nodes.values() if isinstance(node, RepartitionNode)
    }
    for name in names:
        if name in by_sink:
            piece.rekeyed.append(by_sink[name])
            continue
        match graph.nodes[name]:
            case SourceNode() as source:
                piece.sources.append(source)
            case RepartitionNode() as repartition:
                piece.repartitions.append(repartition)
            case SinkNode() as sink:
                piece.sinks.append(sink)
            case ProcessorNode() as node:
                piece.nodes.append(node)
                for store in node.stores:
                    if store in graph.globals:
                        piece.globals[store] = graph.globals[store]
                    else:
                        piece.stores[store] = graph.stores[store]
    return piece


def _may_shuffle(graph: Graph, writer: Subtopology, repartitions: list[RepartitionNode]) -> bool:
    """True if the shuffle can replace the topic: the writer is stateless, and running its nodes
    twice (here and in the writer itself) has no visible effect."""
    if (
        writer.stateful
        or writer.repartitions
        or any(repartition.partitioner for repartition in repartitions)
    ):
        return False
    if _without(graph, writer, {repartition.name for repartition in repartitions}) is None:
        return True
    wanted = _ancestors(graph, repartitions)
    return all(node.pure for node in writer.nodes if node.name in wanted)


def _prefix(graph: Graph, writer: Subtopology, repartitions: list[RepartitionNode]) -> Prefix:
    wanted = _ancestors(graph, repartitions)
    nodes = [node for node in writer.nodes if node.name in wanted]
    names = {store for node in nodes for store in node.stores}
    return Prefix(
        writer.number,
        sources=[source for source in writer.sources if source.name in wanted],
        nodes=nodes,
        globals={name: table for name, table in writer.globals.items() if name in names},
        rekeyed=repartitions,
        order=writer.order,
        serdes=writer.serdes,
    )


def _without(graph: Graph, piece: Subtopology, served: set[str]) -> Subtopology | None:
    """The part of a sub-topology that still runs besides being a prefix; None if there is none."""
    if not served:
        return piece
    rekeyed = [node for node in piece.rekeyed if node.name not in served]
    children = graph.children()
    ends = [node for node in piece.nodes if not children[node.name]]
    wanted = _ancestors(graph, [*piece.sinks, *rekeyed, *ends])
    if not wanted:
        return None
    return Subtopology(
        piece.number,
        sources=[source for source in piece.sources if source.name in wanted],
        nodes=[node for node in piece.nodes if node.name in wanted],
        globals=piece.globals,
        sinks=piece.sinks,
        rekeyed=rekeyed,
        order=piece.order,
        serdes=piece.serdes,
    )


def _ancestors(graph: Graph, ends: Iterable[Node]) -> set[str]:
    """The names of these nodes and of all nodes upstream, back to the sources."""
    found: set[str] = set()
    waiting: list[Node] = list(ends)
    while waiting:
        node = waiting.pop()
        found.add(node.name)
        for parent in parents_of(node):
            found.add(parent)
            if not isinstance(graph.nodes[parent], RepartitionNode):
                waiting.append(graph.nodes[parent])
    return found
