"""Kafka's properties for newer groups and for transactions, which Ottla ignores so far."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    INT,
    KIB,
    LIST,
    LONG,
    MIB,
    at_least,
    list_of,
)
from ottla.config.tables.accepted_cluster import ONE, ZERO, Row

WIDE = CLUSTER_WIDE
SOME = list_of(empty=False)
BUFFER = at_least(512 * KIB)

COORDINATOR: list[Row] = [
    ("group.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    ("group.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, WIDE),
]

CONSUMER: list[Row] = [
    ("group.consumer.assignor.offload.enable", BOOLEAN, True, None, WIDE),
    ("group.consumer.regex.refresh.interval.ms", INT, 600000, ONE),
]

SHARE: list[Row] = [
    ("group.share.assignors", LIST, ("simple",), SOME),
    ("group.share.assignment.interval.ms", INT, 1000, ZERO, WIDE),
    ("group.share.min.assignment.interval.ms", INT, 0, ZERO),
    ("group.share.max.assignment.interval.ms", INT, 15000, ZERO),
    ("group.share.assignor.offload.enable", BOOLEAN, True, None, WIDE),
    ("group.share.initialize.retry.interval.ms", INT, 30000, ONE),
    ("share.fetch.purgatory.purge.interval.requests", INT, 1000, None),
    ("share.coordinator.threads", INT, 1, ONE),
    ("share.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    ("share.coordinator.cached.buffer.max.bytes", INT, MIB + 12, BUFFER, WIDE),
]

STREAMS: list[Row] = [
    ("group.streams.num.warmup.replicas", INT, 2, ZERO),
    ("group.streams.max.warmup.replicas", INT, 20, ZERO),
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
]

ACCEPTED_GROUPS = COORDINATOR + CONSUMER + SHARE + STREAMS + TRANSACTIONS
