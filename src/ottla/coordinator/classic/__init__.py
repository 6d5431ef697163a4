"""Classic groups: the members agree among themselves who consumes which partitions.

    group.py      state, members and generation, with their invariants
    join.py       JoinGroup: dynamic members, static members, and who has to rejoin
    heartbeat.py  SyncGroup, Heartbeat and LeaveGroup
    rebalance.py  from one generation to the next

The leader of a group assigns; the coordinator passes the assignments on and stores them.
"""
