"""Kafka's properties for newer groups and for transactions, which Ottla only accepts so far."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    KIB,
    LIST,
    LONG,
    MIB,
    SHORT,
    STRING,
    at_least,
    between,
    list_of,
)
from ottla.config.tables.accepted_cluster import ONE, ZERO, Row

WIDE = CLUSTER_WIDE
SOME = list_of(empty=False)
BUFFER = at_least(512 * KIB)

COORDINATOR: list[Row] = [
    ("group.coordinator.rebalance.protocols", LIST, ("classic",), SOME),
    ("group.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    ("group.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, WIDE),
]

CONSUMER: list[Row] = [
    ("group.consumer.session.timeout.ms", INT, 45000, ONE),
    ("group.consumer.min.session.timeout.ms", INT, 45000, ONE),
    ("group.consumer.max.session.timeout.ms", INT, 60000, ONE),
    ("group.consumer.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.consumer.min.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.consumer.max.heartbeat.interval.ms", INT, 15000, ONE),
    ("group.consumer.max.size", INT, INT_MAX, ONE),
    ("group.consumer.assignors", LIST, ("uniform", "range"), SOME),
    ("group.consumer.migration.policy", STRING, "bidirectional", None),
    ("group.consumer.assignment.interval.ms", INT, 1000, ZERO, WIDE),
    ("group.consumer.min.assignment.interval.ms", INT, 0, ZERO),
    ("group.consumer.max.assignment.interval.ms", INT, 15000, ZERO),
    ("group.consumer.assignor.offload.enable", BOOLEAN, True, None, WIDE),
    ("group.consumer.regex.refresh.interval.ms", INT, 600000, ONE),
]

SHARE: list[Row] = [
    ("group.share.session.timeout.ms", INT, 45000, ONE),
    ("group.share.min.session.timeout.ms", INT, 45000, ONE),
    ("group.share.max.session.timeout.ms", INT, 60000, ONE),
    ("group.share.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.share.min.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.share.max.heartbeat.interval.ms", INT, 15000, ONE),
    ("group.share.max.size", INT, 200, between(1, 1000)),
    ("group.share.assignors", LIST, ("simple",), SOME),
    ("group.share.assignment.interval.ms", INT, 1000, ZERO, WIDE),
    ("group.share.min.assignment.interval.ms", INT, 0, ZERO),
    ("group.share.max.assignment.interval.ms", INT, 15000, ZERO),
    ("group.share.assignor.offload.enable", BOOLEAN, True, None, WIDE),
    ("group.share.initialize.retry.interval.ms", INT, 30000, ONE),
    ("group.share.delivery.count.limit", INT, 5, between(2, 10)),
    ("group.share.min.delivery.count.limit", INT, 2, between(2, 5)),
    ("group.share.max.delivery.count.limit", INT, 10, between(5, 25)),
    ("group.share.record.lock.duration.ms", INT, 30000, between(1000, 3600000)),
    ("group.share.min.record.lock.duration.ms", INT, 15000, between(1000, 30000)),
    ("group.share.max.record.lock.duration.ms", INT, 60000, between(30000, 3600000)),
    ("group.share.partition.max.record.locks", INT, 2000, between(100, 10000)),
    ("group.share.min.partition.max.record.locks", INT, 100, between(100, 2000)),
    ("group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10000)),
    ("group.share.max.share.sessions", INT, 2000, ONE),
    ("share.fetch.purgatory.purge.interval.requests", INT, 1000, None),
    ("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, False, None, WIDE),
    ("errors.deadletterqueue.topic.name.prefix", STRING, "dlq.", None, WIDE),
    ("share.coordinator.state.topic.num.partitions", INT, 50, ONE),
    ("share.coordinator.state.topic.replication.factor", SHORT, 1, ONE),
    ("share.coordinator.state.topic.min.isr", SHORT, 1, ONE),
    ("share.coordinator.state.topic.segment.bytes", INT, 100 * MIB, ONE),
    ("share.coordinator.state.topic.compression.codec", INT, 0, None),
    ("share.coordinator.state.topic.prune.interval.ms", INT, 300000, ONE),
    ("share.coordinator.threads", INT, 1, ONE),
    ("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500)),
    ("share.coordinator.load.buffer.size", INT, 5 * MIB, ONE),
    ("share.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    ("share.coordinator.write.timeout.ms", INT, 5000, ONE),
    ("share.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, WIDE),
]

STREAMS: list[Row] = [
    ("group.streams.session.timeout.ms", INT, 45000, ONE),
    ("group.streams.min.session.timeout.ms", INT, 45000, ONE),
    ("group.streams.max.session.timeout.ms", INT, 60000, ONE),
    ("group.streams.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.streams.min.heartbeat.interval.ms", INT, 5000, ONE),
    ("group.streams.max.heartbeat.interval.ms", INT, 15000, ONE),
    ("group.streams.max.size", INT, INT_MAX, ONE),
    ("group.streams.num.standby.replicas", INT, 0, ZERO),
    ("group.streams.max.standby.replicas", INT, 2, ZERO),
    ("group.streams.num.warmup.replicas", INT, 2, ZERO),
    ("group.streams.max.warmup.replicas", INT, 20, ZERO),
    ("group.streams.initial.rebalance.delay.ms", INT, 3000, ZERO),
    ("group.streams.assignment.interval.ms", INT, 1000, ZERO, WIDE),
    ("group.streams.min.assignment.interval.ms", INT, 0, ZERO),
    ("group.streams.max.assignment.interval.ms", INT, 15000, ZERO),
    ("group.streams.assignors", LIST, ("sticky",), SOME),
    ("group.streams.assignor.offload.enable", BOOLEAN, True, None, WIDE),
    ("group.streams.task.offset.interval.ms", INT, 60000, ONE),
    ("group.streams.min.task.offset.interval.ms", INT, 15000, ONE),
    ("group.streams.rack.aware.assignment.tags", LIST, (), list_of()),
    ("group.streams.topology.description.plugin.class", CLASS, None, None),
    ("group.streams.acceptable.recovery.lag", LONG, 10000, ZERO),
]

TRANSACTIONS: list[Row] = [
    ("transaction.two.phase.commit.enable", BOOLEAN, False, None),
    ("add.partitions.to.txn.retry.backoff.ms", INT, 20, ONE),
    ("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, ZERO),
]

NEWER_GROUPS = COORDINATOR + CONSUMER + SHARE + STREAMS + TRANSACTIONS
