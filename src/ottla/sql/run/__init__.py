"""Running plans on Spark: the only part of `ottla.sql` that may import pyspark.

Stateless stages on the same topic share one Spark query (`shared_scan.py`), and so do aggregates
that start together (`shared_query.py`). Plans that need tasks run as a Streams application does
(`task_query.py`). `ottla.queries` supervises all of them: restarts, back-off, failures.

    query_executor.py    what the engine needs from Spark: queries, pull queries, tables
    queries.py           Queries: starts, stops and pauses persistent queries
    frames.py            a stage as a DataFrame

Nothing here parses statements or touches the command topic.
"""
