"""Connectors on Spark: a connector is one streaming query, its tasks are the query's partitions.

worker.py states.py     what a worker's config says; how a connector and its tasks are
runner.py               starts a connector and keeps it running
query.py planner.py     its Spark query, and what decides when a batch runs
host.py hosts.py        the processes in which tasks live, from batch to batch
source_task.py sink_task.py   what happens in them
offsets.py              where a connector has come to: read, altered, reset
"""

from ottla.extras import require

require("ottla.connect.run", "spark", ("pyspark", "pyarrow"))
