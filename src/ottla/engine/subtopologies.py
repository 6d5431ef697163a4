"""A graph, cut into the pieces that run: one Spark query each, one task for each partition.

Nodes belong together if one forwards to the other, or if they share a store; a repartition parts
them, as in Kafka. Then one thing is other than in Kafka: where a piece keeps nothing and only
gives records a new key for the next one, no topic lies between the two. It becomes a `Prefix` of
the next piece, and Spark's shuffle carries the rows to their tasks.

    a --> select_key --> count --> to         one piece, prefix a --> select_key
    a --> count --> group_by --> count        two pieces, with a topic between them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.engine.graph import (
    GlobalTable,
    Graph,
    Node,
    ProcessorNode,
    Repartition,
    Sink,
    Source,
    parents_of,
)
from ottla.engine.serde_config import SerdeConfig
from ottla.engine.stores import StoreSpec


@dataclass(slots=True)
class SubTopology:
    """`number` is Kafka's: a task is called `<number>_<partition>`."""

    number: int
    sources: list[Source] = field(default_factory=list)
    repartitions: list[Repartition] = field(default_factory=list)
    """Read here: from a topic, unless one of the prefixes makes its rows."""
    prefixes: list[Prefix] = field(default_factory=list)
    nodes: list[ProcessorNode] = field(default_factory=list)
    """In the order of the topology: parents first."""
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    globals: dict[str, GlobalTable] = field(default_factory=dict)
    sinks: list[Sink] = field(default_factory=list)
    rekeyed: list[Repartition] = field(default_factory=list)
    """Written here. (In a prefix: what the shuffle takes; else: a topic.)"""
    order: list[str] = field(default_factory=list)
    """The names of all of these, as they were added; records are forwarded in this order."""
    serdes: SerdeConfig = field(default_factory=SerdeConfig)

    @property
    def stateful(self) -> bool:
        """It needs a task with state; else rows may be processed wherever they are."""
        return bool(self.stores) or self.custom

    @property
    def custom(self) -> bool:
        """A processor of the user may schedule punctuations."""
        return any(node.custom for node in self.nodes)

    @property
    def shuffled(self) -> set[str]:
        """Names of the repartitions whose rows the prefixes make."""
        return {each.name for prefix in self.prefixes for each in prefix.rekeyed}

    @property
    def internal_topics(self) -> list[Repartition]:
        """Those it reads from topics; names go without the application id."""
        return [each for each in self.repartitions if each.name not in self.shuffled]


Prefix = SubTopology
"""A piece without state in front of another one: its `rekeyed` are `repartitions` there."""


def subtopologies(graph: Graph) -> list[SubTopology]:
    """Those that run, in order. A piece that only served as a prefix is not among them."""
    groups = node_groups(graph).items()
    pieces = {number: _piece(graph, number, names) for number, names in groups}
    writers = {each.name: piece.number for piece in pieces.values() for each in piece.rekeyed}
    served: dict[int, set[str]] = {number: set() for number in pieces}
    for piece in pieces.values():
        read: dict[int, list[Repartition]] = {}
        for repartition in piece.repartitions:
            if not repartition.asked:
                read.setdefault(writers[repartition.name], []).append(repartition)
        for number, repartitions in read.items():
            if _may_shuffle(graph, pieces[number], repartitions):
                piece.prefixes.append(_prefix(graph, pieces[number], repartitions))
                served[number].update(each.name for each in repartitions)
    left = (_without(graph, piece, served[number]) for number, piece in pieces.items())
    return [piece for piece in left if piece is not None]


def node_groups(graph: Graph) -> dict[int, list[str]]:
    """The names of the nodes of each sub-topology, by Kafka's numbers."""
    return {
        number: group for number, group in enumerate(numbered(graph)) if isinstance(group, list)
    }


def numbered(graph: Graph) -> list[list[str] | GlobalTable]:
    """Sub-topologies and global tables, in the order in which Kafka counts them.

    A repartition appears under its own name where it is read, and under its sink's where it is
    written.
    """
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            name = above[name]
        return name

    by_store: dict[str, str] = {}
    for node in graph.nodes.values():
        face = node.sink_name if isinstance(node, Repartition) else node.name
        for parent in parents_of(node):
            above[root(face)] = root(parent)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            if store in graph.stores:
                above[root(node.name)] = root(by_store.setdefault(store, node.name))
    found: dict[str, list[str]] = {}
    places: list[tuple[int, list[str] | GlobalTable]] = []
    for place, node in enumerate(graph.nodes.values()):
        faces = (node.sink_name, node.name) if isinstance(node, Repartition) else (node.name,)
        for face in faces:
            if root(face) not in found:
                found[root(face)] = []
                places.append((place, found[root(face)]))
            found[root(face)].append(face)
    places.extend((table.place - 1, table) for table in graph.globals.values())
    return [group for _, group in sorted(places, key=lambda each: each[0])]


def _piece(graph: Graph, number: int, names: Iterable[str]) -> SubTopology:
    piece = SubTopology(number, order=list(names), serdes=graph.serdes)
    by_sink = {
        each.sink_name: each for each in graph.nodes.values() if isinstance(each, Repartition)
    }
    for name in names:
        if name in by_sink:
            piece.rekeyed.append(by_sink[name])
            continue
        match graph.nodes[name]:
            case Source() as source:
                piece.sources.append(source)
            case Repartition() as repartition:
                piece.repartitions.append(repartition)
            case Sink() as sink:
                piece.sinks.append(sink)
            case ProcessorNode() as node:
                piece.nodes.append(node)
                for store in node.stores:
                    if store in graph.globals:
                        piece.globals[store] = graph.globals[store]
                    else:
                        piece.stores[store] = graph.stores[store]
    return piece


def _may_shuffle(graph: Graph, writer: SubTopology, repartitions: list[Repartition]) -> bool:
    """The rows need no topic: nothing is kept on their way, and nobody sees them made twice."""
    if writer.stateful or writer.repartitions or any(each.partitioner for each in repartitions):
        return False
    if _without(graph, writer, {each.name for each in repartitions}) is None:
        return True
    wanted = _ancestors(graph, repartitions)
    return all(node.pure for node in writer.nodes if node.name in wanted)


def _prefix(graph: Graph, writer: SubTopology, repartitions: list[Repartition]) -> Prefix:
    wanted = _ancestors(graph, repartitions)
    nodes = [node for node in writer.nodes if node.name in wanted]
    names = {store for node in nodes for store in node.stores}
    return Prefix(
        writer.number,
        sources=[each for each in writer.sources if each.name in wanted],
        nodes=nodes,
        globals={name: each for name, each in writer.globals.items() if name in names},
        rekeyed=repartitions,
        order=writer.order,
        serdes=writer.serdes,
    )


def _without(graph: Graph, piece: SubTopology, served: set[str]) -> SubTopology | None:
    """What of a piece is left to run once others have it as prefix; None if nothing is."""
    if not served:
        return piece
    rekeyed = [each for each in piece.rekeyed if each.name not in served]
    children = graph.children()
    ends = [each for each in piece.nodes if not children[each.name]]
    wanted = _ancestors(graph, [*piece.sinks, *rekeyed, *ends])
    if not wanted:
        return None
    return SubTopology(
        piece.number,
        sources=[each for each in piece.sources if each.name in wanted],
        nodes=[each for each in piece.nodes if each.name in wanted],
        globals=piece.globals,
        sinks=piece.sinks,
        rekeyed=rekeyed,
        order=piece.order,
        serdes=piece.serdes,
    )


def _ancestors(graph: Graph, ends: Iterable[Node]) -> set[str]:
    """The names of these and of all nodes on the way to them, back to where records come in."""
    found: set[str] = set()
    waiting: list[Node] = list(ends)
    while waiting:
        node = waiting.pop()
        found.add(node.name)
        for parent in parents_of(node):
            found.add(parent)
            if not isinstance(graph.nodes[parent], Repartition):
                waiting.append(graph.nodes[parent])
    return found
