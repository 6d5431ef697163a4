"""Broker properties of transactions."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DAY_MS,
    INT,
    MIB,
    SHORT,
    Definition,
    at_least,
)

D = Definition

TRANSACTIONS = [
    D(
        "transaction.state.log.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of __transaction_state; not to be changed once it exists.",
    ),
    D(
        "transaction.state.log.replication.factor",
        SHORT,
        1,
        at_least(1),
        "Replicas of __transaction_state; with zookeeper.connect 3 by default, as in Kafka.",
    ),
    D(
        "transaction.state.log.min.isr",
        INT,
        1,
        at_least(1),
        "Replicas that have to have what is decided; with zookeeper.connect 2, as in Kafka.",
    ),
    D(
        "transaction.state.log.segment.bytes",
        INT,
        100 * MIB,
        at_least(1),
        "Segment size of __transaction_state; small, so that it is compacted and loaded fast.",
    ),
    D(
        "transaction.state.log.load.buffer.size",
        INT,
        5 * MIB,
        at_least(1),
        "How much of __transaction_state is read at a time when a broker takes a partition over.",
    ),
    D(
        "transaction.max.timeout.ms",
        INT,
        900000,
        at_least(1),
        "The longest transaction.timeout.ms that a producer may ask for.",
    ),
    D(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        at_least(1),
        "A transactional id that was not used for so long is forgotten.",
    ),
    D(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        at_least(1),
        "How long Produce waits before it asks again for a transaction whose predecessor is not"
        " yet complete.",
    ),
    D(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        at_least(0),
        "How long Produce asks again in all, before the client gets CONCURRENT_TRANSACTIONS.",
    ),
    D(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Ask the coordinator whether a partition is in a transaction before it is written to.",
        CLUSTER_WIDE,
    ),
    D(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        at_least(1),
        "How often transactions are looked for that have been open for too long.",
    ),
    D(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        at_least(1),
        "How often transactional ids to forget are looked for.",
    ),
]
