"""Broker properties of transactions."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DAY_MS,
    INT,
    MIB,
    SHORT,
    ConfigDefinition,
    at_least,
)

D = ConfigDefinition

TRANSACTIONS = [
    D(
        "transaction.state.log.num.partitions",
        INT,
        50,
        at_least(1),
        "Partitions of __transaction_state; must not change once the topic exists.",
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
        "min.insync.replicas of __transaction_state; with zookeeper.connect 2, as in Kafka.",
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
        "How much of __transaction_state is read at a time when a broker becomes coordinator.",
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
        "A transactional id is deleted when it has not been used for this long.",
    ),
    D(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        at_least(1),
        "How long Produce waits between checks of a transaction whose predecessor is not "
        "complete yet.",
    ),
    D(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        at_least(0),
        "How long Produce repeats these checks before the client gets CONCURRENT_TRANSACTIONS.",
    ),
    D(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        None,
        "Before writing to a partition, check with the coordinator that it is in the transaction.",
        CLUSTER_WIDE,
    ),
    D(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        at_least(1),
        "How often to look for transactions that have timed out.",
    ),
    D(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        at_least(1),
        "How often to look for expired transactional ids.",
    ),
]
