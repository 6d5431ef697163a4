"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

    group.py        a streams group: its topology, members, epochs and target assignment
    heartbeat.py    StreamsGroupHeartbeat: members join, get their tasks, and leave
    topology.py     the topology that members declare; configured.py checks it against the topics
    assignor.py     spreads the tasks over the members
    reconcile.py    moves a member to its target, step by step
    records.py      its records in `__consumer_offsets`, byte for byte as Kafka's

The coordinator counts the tasks; the broker creates the internal topics.
"""
