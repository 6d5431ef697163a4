"""Replication: partitions as this broker holds them, as their leader or as a follower.

A partition is a log, the epoch of its leader, and a high watermark: the offset up to which its
records are committed, because every in-sync replica has them.

    partition.py            one partition: roles, appends, reads, the high watermark
    follower_progress.py    the leader's rules: the ISR, and how far everything is committed
    leader_fetcher.py       the follower's rules: what to fetch, and what to cut off first
    replica_fetchers.py     carries these out, with one connection to each leader
    isr_writes.py           writes changes of the in-sync set to the metadata store
    partitions.py           all partitions of the broker, as the cluster's image has them

The rules do no I/O and get the time as an argument; only `replica_fetchers.py` and `isr_writes.py`
run on the event loop. The room knows logs (`storage`) and the cluster's image (`cluster`). It does
not know requests, clients or coordinators: requests that wait for a partition register a callback.
"""
