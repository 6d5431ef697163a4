"""What Spark has no operator for: joins with tables, aggregates over tables, sessions that change.

`order.py` puts the events of a key in order, the machines are plain Python (events in, changes
out), `operators.py` runs them in Spark's transformWithState.
"""

from ottla.spark.sql.run.keyed.operators import apply

__all__ = ["apply"]
