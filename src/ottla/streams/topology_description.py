"""A graph as text, in the format of Kafka's TopologyDescription."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ottla.engine.graph import (
    GlobalTableNode,
    Graph,
    ProcessorNode,
    RepartitionNode,
    SinkNode,
    SourceNode,
    parents_of,
)
from ottla.engine.subtopologies import numbered_subtopologies

BUCKETS = 16  # a HashSet's capacity for up to a dozen stores of a node


@dataclass(slots=True)
class NodeDescription:
    """A node as it is printed."""

    name: str
    text: str
    before: list[str] | None
    after: list[str] | None = field(default_factory=list)
    size: int = 1
    """The size of the tree below it, including itself: larger trees are printed first."""


def topology_description(graph: Graph) -> str:
    text = "Topologies:\n "
    for number, group in enumerate(numbered_subtopologies(graph)):
        if isinstance(group, GlobalTableNode):
            text += _global_table(number, group)
        else:
            text += _subtopology(number, _lines(graph, group))
    return text


def _global_table(number: int, table: GlobalTableNode) -> str:
    return (
        f"  Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    Source: {table.name} (topics: [{table.topic}])\n"
        f"      --> {table.processor_name}\n"
        f"    Processor: {table.processor_name} (stores: [{table.store.name}])\n"
        f"      --> none\n"
        f"      <-- {table.name}\n"
    )


def _subtopology(number: int, lines: dict[str, NodeDescription]) -> str:
    text = f"  Sub-topology: {number}\n"
    for line in sorted(lines.values(), key=_rank):
        text += f"    {line.text}\n"
        if line.after is not None:
            text += f"      --> {_names(lines, line.after)}\n"
        if line.before is not None:
            text += f"      <-- {', '.join(line.before)}\n"
    return text + "\n"


def _lines(graph: Graph, names: Sequence[str]) -> dict[str, NodeDescription]:
    by_sink = {
        node.sink_name: node for node in graph.nodes.values() if isinstance(node, RepartitionNode)
    }
    lines = {name: _line(graph, name, by_sink.get(name)) for name in names}
    # From the sinks up, so that the size of a child's tree is complete before its parent's.
    for name in reversed(names):
        node = by_sink.get(name) or graph.nodes[name]
        if isinstance(node, RepartitionNode) and name == node.name:
            continue
        for parent in parents_of(node):
            after = lines[parent].after
            assert after is not None, "a sink has no children"
            after.insert(0, name)
            lines[parent].size += lines[name].size
    return lines


def _line(graph: Graph, name: str, written: RepartitionNode | None) -> NodeDescription:
    if written is not None:
        return NodeDescription(
            name, f"Sink: {name} (topic: {written.topic})", list(written.parents), None
        )
    match graph.nodes[name]:
        case SourceNode() as source:
            topics = source.pattern or _list(sorted(source.topics))
            return NodeDescription(name, f"Source: {name} (topics: {topics})", None)
        case RepartitionNode() as read:
            return NodeDescription(name, f"Source: {name} (topics: [{read.topic}])", None)
        case ProcessorNode() as node:
            stores = _list(_as_java(store for store in node.stores if store not in graph.globals))
            return NodeDescription(
                name, f"Processor: {name} (stores: {stores})", list(node.parents)
            )
        case SinkNode() as sink:
            what = f"topic: {sink.topic}" if isinstance(sink.topic, str) else _extractor(sink)
            return NodeDescription(name, f"Sink: {name} ({what})", list(sink.parents), None)


def _extractor(sink: SinkNode) -> str:
    return f"extractor class: {getattr(sink.topic, '__name__', type(sink.topic).__name__)}"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _as_java(names: Iterable[str]) -> list[str]:
    """In the iteration order of Java's HashSet: by hash bucket."""

    def bucket(name: str) -> int:
        code = 0
        for letter in name:
            code = (31 * code + ord(letter)) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (BUCKETS - 1)

    return sorted(names, key=bucket)


def _names(lines: dict[str, NodeDescription], names: Sequence[str]) -> str:
    return ", ".join(sorted(names, key=lambda name: _rank(lines[name]))) or "none"


def _rank(line: NodeDescription) -> tuple[int, str]:
    return -line.size, line.name
