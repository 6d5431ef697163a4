"""Kafka's MirrorMaker 2: replicates the topics of another cluster, and the offsets of its groups.

    source.py        replicates records, and emits offset syncs (source offset <-> target offset)
    checkpoints.py   emits checkpoints: groups' offsets, translated to the target cluster
    heartbeats.py    emits heartbeats

Names, settings and the formats of internal topics are Kafka's.
"""
