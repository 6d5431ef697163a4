"""The engine: operators with state, the tasks that run them, where their state is, how it recovers.

`processors.py` is what an operator is, `task.py` runs the operators of one partition in order,
`task_host.py` keeps tasks and their stores in a process beside Spark's workers. Streams and SQL
lower what users write to the nodes of `graph.py`. Only `task_calls.py` and `work.py` know Spark.
"""
