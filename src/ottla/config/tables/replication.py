"""Broker properties of replication: followers' fetches and throttles."""

from __future__ import annotations

from ottla.config.definition import (
    INT,
    LONG,
    LONG_MAX,
    MIB,
    PER_BROKER,
    STRING,
    ConfigDefinition,
    at_least,
)

D = ConfigDefinition

REPLICATION = [
    D(
        "replica.fetch.max.bytes",
        INT,
        MIB,
        at_least(0),
        "The most bytes per partition in a follower's fetch; a larger batch comes whole.",
    ),
    D(
        "replica.fetch.response.max.bytes",
        INT,
        10 * MIB,
        at_least(0),
        "The most bytes in a follower's fetch, over all partitions of one leader.",
    ),
    D(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        None,
        "How long a leader delays a follower's fetch when there is nothing new.",
    ),
    D(
        "replica.fetch.min.bytes",
        INT,
        1,
        None,
        "A leader delays a follower's fetch until there are this many bytes.",
    ),
    D(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        at_least(0),
        "The longest pause before a follower retries a partition that failed.",
    ),
    D(
        "replica.socket.timeout.ms",
        INT,
        30000,
        None,
        "A follower reconnects to a leader that has not answered a fetch for this long.",
    ),
    D(
        "replica.selector.class",
        STRING,
        None,
        None,
        "With org.apache.kafka.common.replica.RackAwareReplicaSelector, consumers that name "
        "their rack fetch from a replica there (KIP-392).",
    ),
    D(
        "replication.quota.window.num",
        INT,
        11,
        at_least(1),
        "The number of windows over which throttled replication averages its rate.",
    ),
    D(
        "replication.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "The length of each of these windows.",
    ),
    D(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second that a leader sends to followers that catch up, for the partitions in"
        " leader.replication.throttled.replicas.",
        PER_BROKER,
    ),
    D(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes per second that a follower fetches to catch up, for the partitions in "
        "follower.replication.throttled.replicas.",
        PER_BROKER,
    ),
]
