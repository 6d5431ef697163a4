"""Topics that are joined without a repartition must have the same number of partitions."""

from __future__ import annotations

from collections.abc import Callable

from ottla.engine.graph import Graph, Source
from ottla.rows.errors import SqlError


def check_copartitioned(graph: Graph, partitions_of: Callable[[str], int | None]) -> None:
    """Rows meet in a task only if a key has the same partition in both topics."""
    for group in graph.copartitioned:
        sources = [node for name in sorted(group) if isinstance(node := graph.nodes[name], Source)]
        found = {topic: partitions_of(topic) for each in sources for topic in each.topics}
        counts = {topic: count for topic, count in found.items() if count}
        if len(set(counts.values())) > 1:
            shown = "; ".join(f"`{topic}` partitions = {count}" for topic, count in counts.items())
            raise SqlError(
                f"Can't join topics since the number of partitions don't match. {shown}.",
                remedy="Repartition either one so that the number of partitions match:"
                " CREATE STREAM ... WITH (PARTITIONS=n) AS SELECT ... PARTITION BY ...",
            )
