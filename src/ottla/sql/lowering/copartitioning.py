"""Copartitioning: topics joined without a repartition need the same number of partitions."""

from __future__ import annotations

from collections.abc import Callable

from ottla.engine.graph import Graph, SourceNode
from ottla.rows.errors import SqlError


def check_copartitioning(graph: Graph, partitions_of: Callable[[str], int | None]) -> None:
    """SqlError unless joined topics have the same partition count, because rows with the same key
    must be in the same task."""
    for group in graph.copartitioned:
        sources = [
            node for name in sorted(group) if isinstance(node := graph.nodes[name], SourceNode)
        ]
        found = {topic: partitions_of(topic) for source in sources for topic in source.topics}
        counts = {topic: count for topic, count in found.items() if count}
        if len(set(counts.values())) > 1:
            shown = "; ".join(f"`{topic}` partitions = {count}" for topic, count in counts.items())
            raise SqlError(
                f"Can't join topics since the number of partitions don't match. {shown}.",
                remedy="Repartition either one so that the number of partitions match:"
                " CREATE STREAM ... WITH (PARTITIONS=n) AS SELECT ... PARTITION BY ...",
            )
