"""Topics of another cluster, with the offsets of its groups: Kafka's MirrorMaker 2.

    source.py       records of topics; where they lie here and there (offset syncs)
    checkpoints.py  offsets of groups, in terms of this cluster
    heartbeats.py   a sign of life

Names, settings and the formats of internal topics are Kafka's.
"""
