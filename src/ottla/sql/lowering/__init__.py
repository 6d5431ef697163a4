"""Lowering: makes a graph of the engine from a plan. Pure: no Spark, no I/O.

    graph = build_graph(plan)

The graph has all stages of a plan: where Spark would need an internal topic between two stages, it
has a node, or a repartition if the key changes. The operators are those of Kafka Streams in
`ottla.engine`, so that a SQL query gives the same results as the equivalent topology.

    graph_builder.py     stages to nodes
    joins.py, aggregates.py, tables.py    the operators, with their stores
    row_serdes.py        keys and rows as bytes, in topics and in stores
    keyed_source.py      the fast path from a record to a row under its key
"""

from __future__ import annotations

from ottla.sql.lowering.graph_builder import build_graph

__all__ = ["build_graph"]
