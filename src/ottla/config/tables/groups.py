"""Broker properties of consumer groups and their offsets, classic protocol."""

from __future__ import annotations

from ottla.config.definition import (
    INT,
    INT_MAX,
    LONG,
    MIB,
    SHORT,
    ConfigDefinition,
    at_least,
    between,
)

D = ConfigDefinition

GROUPS = [
    D(
        "offsets.topic.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of __consumer_offsets; must not change once the topic exists.",
    ),
    D(
        "offsets.topic.replication.factor",
        SHORT,
        1,
        at_least(1),
        "Replicas of __consumer_offsets; with zookeeper.connect 3 by default, as in Kafka.",
    ),
    D(
        "offsets.topic.segment.bytes",
        INT,
        100 * MIB,
        at_least(1),
        "Segment size of __consumer_offsets; small, so that it is compacted and loaded fast.",
    ),
    D(
        "offsets.topic.compression.codec",
        INT,
        0,
        between(0, 4),
        "Compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    D(
        "offsets.load.buffer.size",
        INT,
        5 * MIB,
        at_least(1),
        "How much of __consumer_offsets is read at a time when a broker becomes coordinator.",
    ),
    D(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        at_least(1),
        "How long a commit waits for the replicas of __consumer_offsets.",
    ),
    D(
        "offsets.retention.minutes",
        INT,
        7 * 24 * 60,
        at_least(1),
        "Offsets of a group are deleted when it has been empty for this long.",
    ),
    D(
        "offsets.retention.check.interval.ms",
        LONG,
        600000,
        at_least(1),
        "How often to look for expired offsets.",
    ),
    D(
        "offset.metadata.max.bytes",
        INT,
        4096,
        None,
        "The longest metadata string that may be committed with an offset.",
    ),
    D(
        "group.min.session.timeout.ms",
        INT,
        6000,
        None,
        "The shortest session timeout that a member may ask for.",
    ),
    D(
        "group.max.session.timeout.ms",
        INT,
        1800000,
        None,
        "The longest session timeout that a member may ask for.",
    ),
    D(
        "group.initial.rebalance.delay.ms",
        INT,
        0,
        None,
        "How long an empty group waits for more members before its first rebalance. Kafka's default"
        " is 3000; zero lets a single consumer start at once.",
    ),
    D("group.max.size", INT, INT_MAX, at_least(1), "The most members in one group."),
]
