"""Connectors on Spark: a connector is one streaming query, its tasks are the query's partitions.

Read these three first:

    connector_runner.py     one connector: starts, pauses, restarts and stops its query
    worker_source_task.py   a source task: polled between batches, continued only if all it
                            handed out was committed
    worker_sink_task.py     a sink task: reads its partitions, calls `put`, and determines the
                            offsets that may be committed

Around them: worker_context.py (the worker's properties), connector_status.py (states),
connector_instance.py (the connector itself), connector_query.py and datasource.py (its Spark query,
and when a batch runs), task_process.py and remote_tasks.py (the processes that tasks live in, and
calls to them), offset_committer.py and sink_group_member.py (a sink's offsets, fenced),
transaction_boundary.py (KIP-618), connector_offsets.py (read, altered, reset: KIP-875).

This is the only part of Connect that may import pyspark. Only connect_worker.py, which puts a
worker together, knows the herder and REST.
"""

from ottla.extras import require

require("ottla.connect.run", "spark", ("pyspark", "pyarrow"))
