"""The engine: stateful operators, the tasks that run them, their state, and its recovery.

Streams and SQL lower what users write to the nodes of `graph.py`; `subtopologies.py` cuts such a
graph into the sub-topologies that run. One task runs one sub-topology for one partition.

    processors.py    the Processor API: what an operator is and what its context offers
    task.py          StreamTask: all that happens to a record; also runs in TopologyTestDriver
    task_host.py     tasks and their stores, in a process that outlives Spark's workers

State is durable in two places. `task_files.py` writes one state file per batch before Spark commits
that batch; `restore.py` rebuilds a task from changelog topics when the files are gone. A task
refuses state files that are ahead of the checkpoint: another instance may have written them.

The engine imports pyspark only in `task_calls.py`. It must not import the DSL (`streams`), SQL or a
broker's rooms; a task reads the clock only through `ottla.clock`, so that a test can move it.
"""
