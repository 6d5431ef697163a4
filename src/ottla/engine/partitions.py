"""How many partitions internal topics get, and how many tasks a sub-topology has: Kafka's rules.

A repartition topic has as many as it was asked to have; else as many as the largest topic that its
writer reads. Topics that are joined must have equally many: repartition topics are made to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.engine.graph import Graph, Repartition, Source, TopologyError
from ottla.engine.subtopologies import SubTopology, node_groups

TopicsOf = Callable[[Source], Iterable[str]]
"""The topics of a source that there are: of a pattern, those it matches."""


def counts_of(graph: Graph, topics_of: TopicsOf, partitions: Mapping[str, int]) -> dict[str, int]:
    """By the name of source or repartition; `partitions` has those of topics that are there."""
    counts = {
        each.name: max((partitions[topic] for topic in topics_of(each)), default=0)
        for each in graph.sources()
    }
    repartitions = _repartitions(graph)
    counts |= {each.name: each.partitions or 0 for each in repartitions}
    written = _written_by(graph)
    # A repartition may be read by the writer of the next one: at most as many rounds as there are.
    for _ in range(len(repartitions) + 1):
        for each in repartitions:
            if each.partitions is None:
                upstream = [counts[name] for name in written[each.name] if name != each.name]
                counts[each.name] = max([counts[each.name], *upstream])
        for group in graph.copartitioned:
            _level(graph, group, topics_of, partitions, counts)
    return counts


def task_count(piece: SubTopology, counts: Mapping[str, int]) -> int:
    own: list[Source | Repartition] = [*piece.sources, *piece.repartitions]
    return max((counts[each.name] for each in own), default=1) or 1


def _repartitions(graph: Graph) -> list[Repartition]:
    return [each for each in graph.nodes.values() if isinstance(each, Repartition)]


def _written_by(graph: Graph) -> dict[str, list[str]]:
    """Repartition -> what the sub-topology reads that writes it."""
    ends = {each.sink_name: each.name for each in _repartitions(graph)}
    found: dict[str, list[str]] = {}
    for names in node_groups(graph).values():
        reads = [
            name
            for name in names
            if name in graph.nodes and isinstance(graph.nodes[name], Source | Repartition)
        ]
        found |= {ends[name]: reads for name in names if name in ends}
    return found


def _level(
    graph: Graph,
    group: Iterable[str],
    topics_of: TopicsOf,
    partitions: Mapping[str, int],
    counts: dict[str, int],
) -> None:
    """The same number for all of a group."""
    nodes = [graph.nodes[name] for name in group]
    fixed = {
        topic: partitions[topic]
        for each in nodes
        if isinstance(each, Source)
        for topic in topics_of(each)
    }
    fixed |= {
        each.topic: each.partitions
        for each in nodes
        if isinstance(each, Repartition) and each.partitions is not None
    }
    if len(set(fixed.values())) > 1:
        named = ", ".join(f"{name}={count}" for name, count in sorted(fixed.items()))
        raise TopologyError(
            f"Following topics do not have the same number of partitions: [{{{named}}}]"
        )
    free = [e for e in nodes if isinstance(e, Repartition) and e.partitions is None]
    wanted = next(iter(fixed.values()), max((counts[each.name] for each in free), default=0))
    for each in free:
        counts[each.name] = wanted
