"""Broker properties of replication: what followers fetch, and what is kept back for others."""

from __future__ import annotations

from ottla.config.definition import (
    INT,
    LONG,
    LONG_MAX,
    MIB,
    PER_BROKER,
    STRING,
    Definition,
    at_least,
)

D = Definition

REPLICATION = [
    D(
        "replica.fetch.max.bytes",
        INT,
        MIB,
        at_least(0),
        "What a follower fetches of one partition at a time; a larger batch comes whole.",
    ),
    D(
        "replica.fetch.response.max.bytes",
        INT,
        10 * MIB,
        at_least(0),
        "What a follower fetches of all partitions of one leader at a time.",
    ),
    D(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        None,
        "How long a leader holds a follower's fetch for which it has nothing new.",
    ),
    D(
        "replica.fetch.min.bytes",
        INT,
        1,
        None,
        "With fewer bytes a leader waits before it answers a follower.",
    ),
    D(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        at_least(0),
        "The longest pause of a follower before it tries a partition again that failed.",
    ),
    D(
        "replica.socket.timeout.ms",
        INT,
        30000,
        None,
        "A leader that has not answered a fetch for so long is called anew.",
    ),
    D(
        "replica.selector.class",
        STRING,
        None,
        None,
        "With org.apache.kafka.common.replica.RackAwareReplicaSelector consumers that name"
        " their rack are sent to a replica there (KIP-392).",
    ),
    D(
        "replication.quota.window.num",
        INT,
        11,
        at_least(1),
        "Over how many windows the rate of throttled replication is taken.",
    ),
    D(
        "replication.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "The length of one such window.",
    ),
    D(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes a second that a leader sends to followers which catch up, of the partitions"
        " that leader.replication.throttled.replicas names.",
        PER_BROKER,
    ),
    D(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        at_least(0),
        "Bytes a second that a follower which catches up fetches, of the partitions that"
        " follower.replication.throttled.replicas names.",
        PER_BROKER,
    ),
]
