"""DataFrames into topics: `format("ottla")` for writing, batch and streaming, exactly once.

options.py rows.py      what is asked for, and which columns rows have
partitioner.py encode.py   records of a partition, as record batches
sending.py              to the leaders of the partitions
transactions.py decisions.py   exactly once: transactions of tasks, committed by a decision
writing.py writers.py   what a task does, and what Spark sees
"""
