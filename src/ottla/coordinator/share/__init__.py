"""Share groups (KIP-932): a queue in which members acknowledge each record, without I/O.

    partition.py          a share-partition: which member has acquired which records
    in_flight_batches.py  ranges of its records with the same state
    record_state.py       the states of records, and the types of acknowledgements
    shard.py              the share coordinator: one partition of `__share_group_state`
    state_records.py      the records of that topic
    group.py              a share group: members, epochs and assignments
    heartbeat.py          ShareGroupHeartbeat: members join, get partitions, and leave
    assignor.py           Kafka's simple assignor
    group_records.py      the records of share groups in `__consumer_offsets`

See docs/decisions/0010-share-groups.md.
"""
