"""Partition logs on disk, in Kafka's own file formats.

A log is a list of segments; a segment is a file of record batches with an offset index, a time
index and a transaction index. Everything but the batches can be rebuilt from them.

    log.py         one partition: append, read, roll, truncate. `append` checks everything first,
                   then writes, then remembers: when it fails it leaves no trace
    recovery.py    opening a log after a clean shutdown or a crash, and what is cut off where
    store.py       all logs of a broker over `log.dirs`, and the jobs that its timers run

`producers.py` (idempotence and transactions), `leader_epoch_cache.py` (which records a follower
must cut off) and `swap.py` (how a cleaned segment replaces others) carry the other invariants.
The log cleaner chooses in `cleaner.py` and works in `segment_cleaner.py`, in another process.

The room is synchronous Python on `files.Files`: no network, no event loop, and no clock, since time
comes in as `now_ms`. One thread owns all logs; helper threads run jobs that hold files and paths,
never a `Log`. It may import `records`, `errors` and `slices`, and knows nothing of replicas: the
caller says which offsets are committed.
"""
