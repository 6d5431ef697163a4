"""Streams groups (KIP-1071): the coordinator assigns the tasks of a Kafka Streams application.

`topology.py` is what members say they run, `configured.py` holds it against the cluster's topics,
`assignor.py` spreads the tasks, `reconcile.py` takes a member there step by step, `group.py` keeps
it all, `heartbeat.py` speaks with the members, `keys.py` are the records.
"""
