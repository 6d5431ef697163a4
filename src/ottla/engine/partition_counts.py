"""Kafka's rules for the partition counts of internal topics and the task counts of sub-topologies.

A repartition topic has its configured count, else that of the largest topic its writer reads.
Copartitioned topics must have equal counts, which repartition topics are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.engine.graph import Graph, RepartitionNode, SourceNode, TopologyError
from ottla.engine.subtopologies import Subtopology, node_groups

TopicsOf = Callable[[SourceNode], Iterable[str]]
"""The existing topics of a source; for a pattern, those that match."""


def partition_counts(
    graph: Graph, topics_of: TopicsOf, partitions: Mapping[str, int]
) -> dict[str, int]:
    """Counts by source or repartition name; `partitions` has those of existing topics."""
    counts = {
        source.name: max((partitions[topic] for topic in topics_of(source)), default=0)
        for source in graph.sources()
    }
    repartitions = _repartitions(graph)
    counts |= {repartition.name: repartition.partitions or 0 for repartition in repartitions}
    written = _written_by(graph)
    # The writer of a repartition may read another one, so the counts need several rounds: at most
    # one for each repartition.
    for _ in range(len(repartitions) + 1):
        for repartition in repartitions:
            if repartition.partitions is None:
                upstream = [
                    counts[name] for name in written[repartition.name] if name != repartition.name
                ]
                counts[repartition.name] = max([counts[repartition.name], *upstream])
        for group in graph.copartitioned:
            _level(graph, group, topics_of, partitions, counts)
    return counts


def task_count(piece: Subtopology, counts: Mapping[str, int]) -> int:
    own: list[SourceNode | RepartitionNode] = [*piece.sources, *piece.repartitions]
    return max((counts[node.name] for node in own), default=1) or 1


def _repartitions(graph: Graph) -> list[RepartitionNode]:
    return [node for node in graph.nodes.values() if isinstance(node, RepartitionNode)]


def _written_by(graph: Graph) -> dict[str, list[str]]:
    """Repartition -> the sources and repartitions that its writing sub-topology reads."""
    ends = {repartition.sink_name: repartition.name for repartition in _repartitions(graph)}
    found: dict[str, list[str]] = {}
    for names in node_groups(graph).values():
        reads = [
            name
            for name in names
            if name in graph.nodes and isinstance(graph.nodes[name], SourceNode | RepartitionNode)
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
    """Gives all nodes of a copartitioned group the same count."""
    nodes = [graph.nodes[name] for name in group]
    fixed = {
        topic: partitions[topic]
        for node in nodes
        if isinstance(node, SourceNode)
        for topic in topics_of(node)
    }
    fixed |= {
        node.topic: node.partitions
        for node in nodes
        if isinstance(node, RepartitionNode) and node.partitions is not None
    }
    if len(set(fixed.values())) > 1:
        named = ", ".join(f"{name}={count}" for name, count in sorted(fixed.items()))
        raise TopologyError(
            f"Following topics do not have the same number of partitions: [{{{named}}}]"
        )
    free = [node for node in nodes if isinstance(node, RepartitionNode) and node.partitions is None]
    wanted = next(iter(fixed.values()), max((counts[node.name] for node in free), default=0))
    for node in free:
        counts[node.name] = wanted
