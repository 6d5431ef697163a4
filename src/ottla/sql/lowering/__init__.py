"""Plans -> graphs of the engine. Pure: no Spark, no I/O.

    graph = lowered(plan)

One graph for all stages of a plan: what lies in an internal topic between two of them under Spark
is a node here, and a repartition where the key changes.
"""

from __future__ import annotations

from ottla.sql.lowering.lower import lowered

__all__ = ["lowered"]
