"""`format("ottla")` for writing: DataFrames into topics, batch and streaming, exactly once.

writers.py         Spark's DataSource writers: `write` runs in tasks, `commit` in the driver
task_attempt.py    what one attempt of a task writes, in its own transaction
commit_log.py      commits the transactions of all tasks of a batch, or none

topic_records.py turns rows into records by columns, partitioner.py and encode.py turn those into
record batches, options.py checks the options.

The sink speaks to brokers through `ottla.client.protocol` only. It must not look at a checkpoint:
Spark tells it query, batch and task, and the broker has all other state.
"""
