"""A graph as text, in the form of Kafka's TopologyDescription."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ottla.engine.graph import (
    GlobalTable,
    Graph,
    ProcessorNode,
    Repartition,
    Sink,
    Source,
    parents_of,
)
from ottla.engine.subtopologies import numbered

BUCKETS = 16  # enough for a dozen stores of one node


@dataclass(slots=True)
class Line:
    """A node as it is printed."""

    name: str
    text: str
    before: list[str] | None
    after: list[str] | None = field(default_factory=list)
    size: int = 1
    """Of the tree below it, itself included: larger ones come first."""


def describe(graph: Graph) -> str:
    text = "Topologies:\n "
    for number, group in enumerate(numbered(graph)):
        if isinstance(group, GlobalTable):
            text += _global_table(number, group)
        else:
            text += _subtopology(number, _lines(graph, group))
    return text


def _global_table(number: int, table: GlobalTable) -> str:
    return (
        f"  Sub-topology: {number} for global store (will not generate tasks)\n"
        f"    Source: {table.name} (topics: [{table.topic}])\n"
        f"      --> {table.processor_name}\n"
        f"    Processor: {table.processor_name} (stores: [{table.store.name}])\n"
        f"      --> none\n"
        f"      <-- {table.name}\n"
    )


def _subtopology(number: int, lines: dict[str, Line]) -> str:
    text = f"  Sub-topology: {number}\n"
    for line in sorted(lines.values(), key=_rank):
        text += f"    {line.text}\n"
        if line.after is not None:
            text += f"      --> {_names(lines, line.after)}\n"
        if line.before is not None:
            text += f"      <-- {', '.join(line.before)}\n"
    return text + "\n"


def _lines(graph: Graph, names: Sequence[str]) -> dict[str, Line]:
    by_sink = {
        each.sink_name: each for each in graph.nodes.values() if isinstance(each, Repartition)
    }
    lines = {name: _line(graph, name, by_sink.get(name)) for name in names}
    # From below: what is counted in a tree is counted already.
    for name in reversed(names):
        node = by_sink.get(name) or graph.nodes[name]
        if isinstance(node, Repartition) and name == node.name:
            continue
        for parent in parents_of(node):
            after = lines[parent].after
            assert after is not None, "a sink has nothing behind it"
            after.insert(0, name)
            lines[parent].size += lines[name].size
    return lines


def _line(graph: Graph, name: str, written: Repartition | None) -> Line:
    if written is not None:
        return Line(name, f"Sink: {name} (topic: {written.topic})", list(written.parents), None)
    match graph.nodes[name]:
        case Source() as source:
            topics = source.pattern or _list(sorted(source.topics))
            return Line(name, f"Source: {name} (topics: {topics})", None)
        case Repartition() as read:
            return Line(name, f"Source: {name} (topics: [{read.topic}])", None)
        case ProcessorNode() as node:
            stores = _list(_as_java(each for each in node.stores if each not in graph.globals))
            return Line(name, f"Processor: {name} (stores: {stores})", list(node.parents))
        case Sink() as sink:
            what = f"topic: {sink.topic}" if isinstance(sink.topic, str) else _extractor(sink)
            return Line(name, f"Sink: {name} ({what})", list(sink.parents), None)


def _extractor(sink: Sink) -> str:
    return f"extractor class: {getattr(sink.topic, '__name__', type(sink.topic).__name__)}"


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


def _as_java(names: Iterable[str]) -> list[str]:
    """In the order in which Java's HashSet gives them: by the bucket that they fall into."""

    def bucket(name: str) -> int:
        code = 0
        for letter in name:
            code = (31 * code + ord(letter)) & 0xFFFFFFFF
        return (code ^ (code >> 16)) & (BUCKETS - 1)

    return sorted(names, key=bucket)


def _names(lines: dict[str, Line], names: Sequence[str]) -> str:
    return ", ".join(sorted(names, key=lambda name: _rank(lines[name]))) or "none"


def _rank(line: Line) -> tuple[int, str]:
    return -line.size, line.name
