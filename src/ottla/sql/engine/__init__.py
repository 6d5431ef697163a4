"""The engine: executes statements in the same order on all servers, and keeps queries running.


A statement that changes something is planned against the catalog, written to the command topic,
and executed by every server of the service when its command runner reads it back. One of these
servers, the one that holds the lease, runs the persistent queries.

    engine.py             Engine: statements in, entities and query results out
    command_topic.py      the log of statements; command_runner.py reads and executes it
    state_changes.py      statement + state -> next state; pure, used for checking and for executing
    query_reconciler.py   starts and stops queries until what runs is what the state asks for
    lease.py              which server runs them; state_ownership.py: whose state directory it is
    descriptions.py       SHOW, DESCRIBE and EXPLAIN; entities.py has the shapes of ksqlDB's REST

Nothing here imports pyspark: `ottla.sql.run` has what needs Spark, and is passed in. Nothing here
knows HTTP: `ottla.sql.server` is in front.
"""
