"""The life of everything that runs on Spark: one state machine, one supervisor, one launcher.

SQL, Streams and Connect describe a query as a `QuerySpecification`; this room starts it, watches
it, restarts it with back-off, and reports its state.

    lifecycle.py     why and when a query is restarted: events in, instructions out, no I/O
    supervisor.py    the one thread that carries the instructions out
    failures.py      which errors are fatal, retriable or unknown: the only text matching

`task_runtime.py` starts a sub-topology of the engine as a Spark query, with `starting_positions.py`
(where it begins) and `application_topics.py` (its internal topics).

This room may import `engine`, `spark` and `rows`. It knows nothing of SQL, Streams or Connect, and
no class here decides what a query computes.
"""
