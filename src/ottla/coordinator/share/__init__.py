"""Share groups (KIP-932): a queue with acknowledgement of each record, without I/O.

    partition.py   who holds which record of a partition: the state machine of a share-partition
    states.py      the states that a record can be in, and ranges of offsets in them
    records.py     the records of `__share_group_state`, in which those states are kept
    persister.py   one partition of that topic: the share coordinator's shard
    group.py       a share group: members, epochs, who reads which partitions
    keys.py        the records of `__consumer_offsets` that keep such a group

See docs/decisions/0010-share-groups.md.
"""
