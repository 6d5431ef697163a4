"""Kafka's properties for newer groups and for transactions, which Ottla only accepts so far."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DAY_MS,
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
    ("group.coordinator.rebalance.protocols", LIST, ("classic",), SOME, "Group protocols served."),
    ("group.coordinator.append.linger.ms", INT, -1, at_least(-1), "How long writes collect."),
    ("group.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, "Buffer kept.", WIDE),
]

CONSUMER: list[Row] = [
    ("group.consumer.session.timeout.ms", INT, 45000, ONE, "A KIP-848 member's session."),
    ("group.consumer.min.session.timeout.ms", INT, 45000, ONE, "The shortest of them."),
    ("group.consumer.max.session.timeout.ms", INT, 60000, ONE, "The longest of them."),
    ("group.consumer.heartbeat.interval.ms", INT, 5000, ONE, "How often a member reports."),
    ("group.consumer.min.heartbeat.interval.ms", INT, 5000, ONE, "At most so often."),
    ("group.consumer.max.heartbeat.interval.ms", INT, 15000, ONE, "At least so often."),
    ("group.consumer.max.size", INT, INT_MAX, ONE, "Members in one group."),
    ("group.consumer.assignors", LIST, ("uniform", "range"), SOME, "Assignors, the first first."),
    ("group.consumer.migration.policy", STRING, "bidirectional", None, "Old to new and back."),
    ("group.consumer.assignment.interval.ms", INT, 1000, ZERO, "Between assignments.", WIDE),
    ("group.consumer.min.assignment.interval.ms", INT, 0, ZERO, "The shortest of these."),
    ("group.consumer.max.assignment.interval.ms", INT, 15000, ZERO, "The longest of these."),
    ("group.consumer.assignor.offload.enable", BOOLEAN, True, None, "Assign aside.", WIDE),
    ("group.consumer.regex.refresh.interval.ms", INT, 600000, ONE, "New topics for a pattern."),
]

SHARE: list[Row] = [
    ("group.share.session.timeout.ms", INT, 45000, ONE, "A share group member's session."),
    ("group.share.min.session.timeout.ms", INT, 45000, ONE, "The shortest of them."),
    ("group.share.max.session.timeout.ms", INT, 60000, ONE, "The longest of them."),
    ("group.share.heartbeat.interval.ms", INT, 5000, ONE, "How often a member reports."),
    ("group.share.min.heartbeat.interval.ms", INT, 5000, ONE, "At most so often."),
    ("group.share.max.heartbeat.interval.ms", INT, 15000, ONE, "At least so often."),
    ("group.share.max.size", INT, 200, between(1, 1000), "Members in one group."),
    ("group.share.assignors", LIST, ("simple",), SOME, "Assignors, the first first."),
    ("group.share.assignment.interval.ms", INT, 1000, ZERO, "Between assignments.", WIDE),
    ("group.share.min.assignment.interval.ms", INT, 0, ZERO, "The shortest of these."),
    ("group.share.max.assignment.interval.ms", INT, 15000, ZERO, "The longest of these."),
    ("group.share.assignor.offload.enable", BOOLEAN, True, None, "Assign aside.", WIDE),
    ("group.share.initialize.retry.interval.ms", INT, 30000, ONE, "Pause before trying again."),
    ("group.share.delivery.count.limit", INT, 5, between(2, 10), "How often one is delivered."),
    ("group.share.min.delivery.count.limit", INT, 2, between(2, 5), "The least of these."),
    ("group.share.max.delivery.count.limit", INT, 10, between(5, 25), "The most of these."),
    ("group.share.record.lock.duration.ms", INT, 30000, between(1000, 3600000), "A lock's life."),
    ("group.share.min.record.lock.duration.ms", INT, 15000, between(1000, 30000), "The shortest."),
    ("group.share.max.record.lock.duration.ms", INT, 60000, between(30000, 3600000), "Longest."),
    ("group.share.partition.max.record.locks", INT, 2000, between(100, 10000), "Locks at once."),
    ("group.share.min.partition.max.record.locks", INT, 100, between(100, 2000), "The least."),
    ("group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10000), "The most."),
    ("group.share.max.share.sessions", INT, 2000, ONE, "Share sessions kept at once."),
    ("share.fetch.purgatory.purge.interval.requests", INT, 1000, None, "When parked ones go."),
    ("errors.deadletterqueue.auto.create.topics.enable", BOOLEAN, False, None, "KIP-1191.", WIDE),
    ("errors.deadletterqueue.topic.name.prefix", STRING, "dlq.", None, "Their names.", WIDE),
    ("share.coordinator.state.topic.num.partitions", INT, 50, ONE, "Of __share_group_state."),
    ("share.coordinator.state.topic.replication.factor", SHORT, 1, ONE, "Of the same; Kafka: 3."),
    ("share.coordinator.state.topic.min.isr", SHORT, 1, ONE, "Of the same; Kafka: 2."),
    ("share.coordinator.state.topic.segment.bytes", INT, 100 * MIB, ONE, "Of the same."),
    ("share.coordinator.state.topic.compression.codec", INT, 0, None, "Of the same."),
    ("share.coordinator.state.topic.prune.interval.ms", INT, 300000, ONE, "When it is pruned."),
    ("share.coordinator.threads", INT, 1, ONE, "Threads of the share coordinator."),
    ("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500), "Each."),
    ("share.coordinator.load.buffer.size", INT, 5 * MIB, ONE, "Read at a time on take-over."),
    ("share.coordinator.append.linger.ms", INT, -1, at_least(-1), "How long writes collect."),
    ("share.coordinator.write.timeout.ms", INT, 5000, ONE, "How long a write may take."),
    ("share.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, "Buffer kept.", WIDE),
]

STREAMS: list[Row] = [
    ("group.streams.session.timeout.ms", INT, 45000, ONE, "A streams group member's session."),
    ("group.streams.min.session.timeout.ms", INT, 45000, ONE, "The shortest of them."),
    ("group.streams.max.session.timeout.ms", INT, 60000, ONE, "The longest of them."),
    ("group.streams.heartbeat.interval.ms", INT, 5000, ONE, "How often a member reports."),
    ("group.streams.min.heartbeat.interval.ms", INT, 5000, ONE, "At most so often."),
    ("group.streams.max.heartbeat.interval.ms", INT, 15000, ONE, "At least so often."),
    ("group.streams.max.size", INT, INT_MAX, ONE, "Members in one group."),
    ("group.streams.num.standby.replicas", INT, 0, ZERO, "Standby copies of a task."),
    ("group.streams.max.standby.replicas", INT, 2, ZERO, "The most of them."),
    ("group.streams.num.warmup.replicas", INT, 2, ZERO, "Copies that warm up."),
    ("group.streams.max.warmup.replicas", INT, 20, ZERO, "The most of them."),
    ("group.streams.initial.rebalance.delay.ms", INT, 3000, ZERO, "Wait for more members."),
    ("group.streams.assignment.interval.ms", INT, 1000, ZERO, "Between assignments.", WIDE),
    ("group.streams.min.assignment.interval.ms", INT, 0, ZERO, "The shortest of these."),
    ("group.streams.max.assignment.interval.ms", INT, 15000, ZERO, "The longest of these."),
    ("group.streams.assignors", LIST, ("sticky",), SOME, "Assignors, the first first."),
    ("group.streams.assignor.offload.enable", BOOLEAN, True, None, "Assign aside.", WIDE),
    ("group.streams.task.offset.interval.ms", INT, 60000, ONE, "How often offsets are told."),
    ("group.streams.min.task.offset.interval.ms", INT, 15000, ONE, "At most so often."),
    ("group.streams.rack.aware.assignment.tags", LIST, (), list_of(), "Tags told apart."),
    ("group.streams.topology.description.plugin.class", CLASS, None, None, "Describes them."),
    ("group.streams.acceptable.recovery.lag", LONG, 10000, ZERO, "Lag at which one is caught up."),
]

TRANSACTIONS: list[Row] = [
    ("transaction.state.log.num.partitions", INT, 50, ONE, "Of __transaction_state."),
    ("transaction.state.log.replication.factor", SHORT, 1, ONE, "Of the same; Kafka: 3."),
    ("transaction.state.log.min.isr", INT, 1, ONE, "Of the same; Kafka: 2."),
    ("transaction.state.log.segment.bytes", INT, 100 * MIB, ONE, "Of the same."),
    ("transaction.state.log.load.buffer.size", INT, 5 * MIB, ONE, "Read at a time on take-over."),
    ("transaction.max.timeout.ms", INT, 900000, ONE, "The longest transaction allowed."),
    ("transactional.id.expiration.ms", INT, 7 * DAY_MS, ONE, "An unused id is forgotten."),
    ("transaction.partition.verification.enable", BOOLEAN, True, None, "KIP-890.", WIDE),
    ("transaction.two.phase.commit.enable", BOOLEAN, False, None, "KIP-939."),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10000,
        ONE,
        "How often overdue transactions are looked for.",
    ),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3600000,
        ONE,
        "How often unused ids are looked for.",
    ),
    ("add.partitions.to.txn.retry.backoff.ms", INT, 20, ONE, "Pause before trying again."),
    ("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, ZERO, "The longest such pause."),
]

NEWER_GROUPS = COORDINATOR + CONSUMER + SHARE + STREAMS + TRANSACTIONS
