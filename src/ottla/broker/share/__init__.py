"""Share groups (KIP-932) on this broker: queues whose members acknowledge single records.

A broker plays three roles here. As the leader of a partition it hands out the records of its
share-partitions (`partitions.py`) and takes acknowledgements for them. As the share coordinator it
keeps the states of share-partitions in `__share_group_state` (`coordinator_service.py`). And as
either of the two, or as a group coordinator, it reads and writes such states, wherever they are
kept (`persister.py`). Records that a group gives up go to a dead letter queue (`dead_letters.py`,
KIP-1191).

The decisions are made in `ottla.coordinator.share`, which does no I/O. Here they meet the logs, the
other brokers, and the clients that wait. Nothing here knows the broker: each part gets what it
needs from `broker.py`.
"""
