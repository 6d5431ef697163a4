"""Consumer groups (KIP-848): the coordinator assigns, and members reconcile step by step.

    group.py            members, epochs, target assignment, and the owner of each partition
    heartbeat.py        ConsumerGroupHeartbeat: members join, get their assignments, and leave
    reconcile.py        moves a member from its current assignment to its target
    subscription.py     when the epoch rises, and when a new target is computed
    assignors.py        the uniform and the range assignor
    regex.py            RE2 expressions of subscriptions, matched in bounded time
    classic_members.py  members with the classic protocol; convert.py migrates whole groups
    records.py          the records in `__consumer_offsets`, byte for byte as Kafka's

Every change to a group goes through a method of `ConsumerGroup` that writes its record and says how
to undo it. See docs/decisions/0009-consumer-groups.md.
"""
