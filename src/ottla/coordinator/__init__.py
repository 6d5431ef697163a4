"""The coordinators of groups, transactions and share states: state machines without I/O.

An event (a request, a timer, a deleted topic) changes a shard, and gives a CoordinatorResult with
records and replies; `ottla.broker.coordinator_service` appends the former and sends the latter. So
these rooms need no event loop, no clock and no log, and are tested without them.

    runtime.py               what coordinators share: shards, loading, undo of a failed append
    group_coordinator.py     requests of groups; group_shard.py is one partition of their topic
    classic/, consumer/,     the four types of groups, which group_type.py describes to the shard
    share/, streams/
    transactions/            the transaction coordinator
    share/shard.py           the share coordinator, which keeps the states of share-partitions

This room imports no asyncio, no socket and no storage; time, random ids and configs are arguments.
See docs/decisions/0004-coordinator-outcomes.md and 0053-coordinator-runtime.md.
"""
