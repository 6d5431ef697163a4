"""Kafka's properties for threads, replication, KRaft and tiered storage, which Ottla ignores.

A `server.properties` that was written for Kafka starts Ottla without a warning; the properties in
this table have no effect. A property that comes into use moves to another table.
"""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DAY_MS,
    DOUBLE,
    INT,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    MIB,
    PER_BROKER,
    STRING,
    Check,
    ConfigType,
    UpdateMode,
    Value,
    at_least,
    between,
    list_of,
)

Row = (
    tuple[str, ConfigType, Value, Check | None]
    | tuple[str, ConfigType, Value, Check | None, UpdateMode]
)

ZERO = at_least(0)
ONE = at_least(1)
WIDE = CLUSTER_WIDE

THREADS: list[Row] = [
    ("background.threads", INT, 10, ONE, WIDE),
    ("num.io.threads", INT, 8, ONE, WIDE),
    ("num.network.threads", INT, 3, ONE, WIDE),
    ("num.replica.alter.log.dirs.threads", INT, None, None),
    ("num.replica.fetchers", INT, 1, ONE, WIDE),
    ("group.coordinator.threads", INT, 4, ONE),
    ("group.coordinator.background.threads", INT, 2, ONE),
    ("request.timeout.ms", INT, 30000, None),
    ("socket.connection.setup.timeout.ms", LONG, 10000, None),
    ("socket.connection.setup.timeout.max.ms", LONG, 30000, None),
    ("early.start.listeners", LIST, None, list_of()),
    ("config.providers", LIST, (), list_of(), WIDE),
    ("create.topic.policy.class.name", CLASS, None, None),
    ("alter.config.policy.class.name", CLASS, None, None),
    ("cordoned.log.dirs", LIST, (), list_of(), PER_BROKER),
    ("log.dir.failure.timeout.ms", LONG, 30000, ONE),
]

REPLICATION: list[Row] = [
    ("controller.socket.timeout.ms", INT, 30000, None),
    ("replica.socket.receive.buffer.bytes", INT, 64 * KIB, None),
    ("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, WIDE),
    ("fetch.purgatory.purge.interval.requests", INT, 1000, None),
    ("producer.purgatory.purge.interval.requests", INT, 1000, None),
    ("delete.records.purgatory.purge.interval.requests", INT, 1, None),
]

KRAFT: list[Row] = [
    ("process.roles", LIST, (), list_of("broker", "controller")),
    ("controller.listener.names", LIST, (), list_of()),
    ("controller.quorum.voters", LIST, (), list_of()),
    ("controller.quorum.bootstrap.servers", LIST, (), list_of()),
    ("controller.quorum.election.timeout.ms", INT, 1000, ZERO),
    ("controller.quorum.fetch.timeout.ms", INT, 2000, ZERO),
    ("controller.quorum.election.backoff.max.ms", INT, 1000, ZERO),
    ("controller.quorum.append.linger.ms", INT, 25, ZERO),
    ("controller.quorum.request.timeout.ms", INT, 2000, ZERO),
    ("controller.quorum.retry.backoff.ms", INT, 20, ZERO),
    ("controller.quorum.auto.join.enable", BOOLEAN, False, None),
    ("controller.quorum.fetch.max.bytes", INT, MIB, ONE),
    ("controller.quorum.fetch.snapshot.max.bytes", INT, MIB, ONE),
    ("broker.heartbeat.interval.ms", INT, 2000, None),
    ("broker.session.timeout.ms", INT, 9000, None),
    ("initial.broker.registration.timeout.ms", INT, 60000, None),
    ("metadata.log.dir", STRING, None, None),
    ("metadata.log.segment.bytes", INT, 1024 * MIB, at_least(8 * MIB)),
    ("metadata.log.segment.ms", LONG, 7 * DAY_MS, None),
    ("metadata.log.max.record.bytes.between.snapshots", LONG, 20 * MIB, ONE),
    ("metadata.log.max.snapshot.interval.ms", LONG, 3600000, ZERO),
    ("metadata.max.retention.bytes", LONG, 100 * MIB, None),
    ("metadata.max.retention.ms", LONG, 7 * DAY_MS, None),
    ("metadata.max.idle.interval.ms", INT, 500, ZERO),
    ("sasl.mechanism.controller.protocol", STRING, "GSSAPI", None),
]

METRICS: list[Row] = [
    ("metric.reporters", LIST, (), list_of(), WIDE),
    ("metrics.num.samples", INT, 2, ONE),
    ("metrics.recording.level", STRING, "INFO", None),
    ("metrics.sample.window.ms", LONG, 30000, ONE),
    ("kafka.metrics.reporters", LIST, (), list_of()),
    ("kafka.metrics.polling.interval.secs", INT, 10, ONE),
]

QUOTAS: list[Row] = [
    ("client.quota.callback.class", CLASS, None, None),
    ("alter.log.dirs.replication.quota.window.num", INT, 11, ONE),
    ("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, ONE),
    (
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        ZERO,
        PER_BROKER,
    ),
]

REMOTE: list[Row] = [
    ("remote.log.storage.system.enable", BOOLEAN, False, None),
    ("remote.log.storage.manager.class.name", STRING, None, None),
    ("remote.log.storage.manager.class.path", STRING, None, None),
    ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", None),
    ("remote.log.metadata.manager.class.name", STRING, None, None),
    ("remote.log.metadata.manager.class.path", STRING, None, None),
    ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", None),
    ("remote.log.metadata.manager.listener.name", STRING, None, None),
    ("remote.log.metadata.custom.metadata.max.bytes", INT, 128, ZERO),
    ("remote.log.index.file.cache.total.size.bytes", LONG, 1024 * MIB, ONE, WIDE),
    ("remote.log.manager.thread.pool.size", INT, 2, ONE),
    ("remote.log.manager.copier.thread.pool.size", INT, 10, ONE, WIDE),
    ("remote.log.manager.expiration.thread.pool.size", INT, 10, ONE, WIDE),
    ("remote.log.manager.follower.thread.pool.size", INT, 2, ONE, WIDE),
    ("remote.log.manager.task.interval.ms", LONG, 30000, ONE),
    ("remote.log.manager.task.retry.backoff.ms", LONG, 500, ONE),
    ("remote.log.manager.task.retry.backoff.max.ms", LONG, 30000, ONE),
    ("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5)),
    ("remote.log.reader.threads", INT, 10, ONE, WIDE),
    ("remote.log.reader.max.pending.tasks", INT, 100, ONE),
    ("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, ONE, WIDE),
    ("remote.log.manager.copy.quota.window.num", INT, 11, ONE),
    ("remote.log.manager.copy.quota.window.size.seconds", INT, 1, ONE),
    ("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, ONE, WIDE),
    ("remote.log.manager.fetch.quota.window.num", INT, 11, ONE),
    ("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, ONE),
    ("remote.fetch.max.wait.ms", INT, 500, ONE, WIDE),
    ("remote.list.offsets.request.timeout.ms", LONG, 30000, ONE, WIDE),
    ("log.local.retention.ms", LONG, -2, at_least(-2), WIDE),
    ("log.local.retention.bytes", LONG, -2, at_least(-2), WIDE),
    ("log.remote.copy.lag.ms", LONG, 0, at_least(-1), WIDE),
    ("log.remote.copy.lag.bytes", LONG, -1, at_least(-1), WIDE),
]

ACCEPTED_CLUSTER = THREADS + REPLICATION + KRAFT + METRICS + QUOTAS + REMOTE
