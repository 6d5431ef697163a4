"""Kafka's properties for threads, replication, KRaft and tiered storage, which Ottla only accepts.

A `server.properties` that was written for Kafka starts Ottla without a warning; what stands here
changes nothing. A property that comes into use moves to the table of its room.
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
    Update,
    Value,
    at_least,
    between,
    list_of,
)

Row = (
    tuple[str, ConfigType, Value, Check | None, str]
    | tuple[str, ConfigType, Value, Check | None, str, Update]
)

ZERO = at_least(0)
ONE = at_least(1)
WIDE = CLUSTER_WIDE

THREADS: list[Row] = [
    ("background.threads", INT, 10, ONE, "Threads for background work.", WIDE),
    ("num.io.threads", INT, 8, ONE, "Threads that serve requests.", WIDE),
    ("num.network.threads", INT, 3, ONE, "Threads that read and write sockets.", WIDE),
    ("num.replica.alter.log.dirs.threads", INT, None, None, "Threads that move replicas."),
    ("num.replica.fetchers", INT, 1, ONE, "Fetching threads for each other broker.", WIDE),
    ("group.coordinator.threads", INT, 4, ONE, "Threads of the group coordinator."),
    ("group.coordinator.background.threads", INT, 2, ONE, "Its threads for assignments."),
    ("request.timeout.ms", INT, 30000, None, "How long a broker waits for another's answer."),
    ("socket.connection.setup.timeout.ms", LONG, 10000, None, "How long to wait for a peer."),
    ("socket.connection.setup.timeout.max.ms", LONG, 30000, None, "The longest such wait."),
    ("early.start.listeners", LIST, None, list_of(), "Listeners opened before authorization."),
    ("config.providers", LIST, (), list_of(), "Aliases of classes which look up values.", WIDE),
    ("create.topic.policy.class.name", CLASS, None, None, "A class that judges new topics."),
    ("alter.config.policy.class.name", CLASS, None, None, "A class that judges new configs."),
    ("cordoned.log.dirs", LIST, (), list_of(), "Directories for no new replicas.", PER_BROKER),
    ("log.dir.failure.timeout.ms", LONG, 30000, ONE, "Wait before a failed directory is told."),
]

REPLICATION: list[Row] = [
    ("controller.socket.timeout.ms", INT, 30000, None, "The controller's wait for a broker."),
    ("replica.socket.timeout.ms", INT, 30000, None, "A follower's wait for its leader."),
    ("replica.socket.receive.buffer.bytes", INT, 64 * KIB, None, "A follower's SO_RCVBUF."),
    ("replica.fetch.max.bytes", INT, MIB, ZERO, "Bytes of one partition in a follower's fetch."),
    ("replica.fetch.response.max.bytes", INT, 10 * MIB, ZERO, "Bytes of a follower's fetch."),
    ("replica.fetch.wait.max.ms", INT, 500, None, "A follower's fetch waits so long for data."),
    ("replica.fetch.min.bytes", INT, 1, None, "A follower's fetch waits for so many bytes."),
    ("replica.fetch.backoff.ms", INT, 1000, ZERO, "A follower's pause after an error."),
    ("replica.selector.class", STRING, None, None, "A class that picks replicas for consumers."),
    ("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, None, "Skip tiered data.", WIDE),
    ("fetch.purgatory.purge.interval.requests", INT, 1000, None, "When parked fetches go."),
    ("producer.purgatory.purge.interval.requests", INT, 1000, None, "When parked produces go."),
    ("delete.records.purgatory.purge.interval.requests", INT, 1, None, "When deletions go."),
    ("auto.leader.rebalance.enable", BOOLEAN, True, None, "Return leadership to the preferred."),
    ("leader.imbalance.check.interval.seconds", LONG, 300, ONE, "How often that is checked."),
    ("leader.imbalance.per.broker.percentage", INT, 10, None, "What imbalance is suffered."),
    ("security.inter.broker.protocol", STRING, "PLAINTEXT", None, "How brokers speak together."),
]

KRAFT: list[Row] = [
    ("process.roles", LIST, (), list_of("broker", "controller"), "The roles of a KRaft node."),
    ("controller.listener.names", LIST, (), list_of(), "Listeners of the KRaft controller."),
    ("controller.quorum.voters", LIST, (), list_of(), "The voters: id@host:port."),
    ("controller.quorum.bootstrap.servers", LIST, (), list_of(), "Where the quorum is found."),
    ("controller.quorum.election.timeout.ms", INT, 1000, ZERO, "Wait before a new election."),
    ("controller.quorum.fetch.timeout.ms", INT, 2000, ZERO, "Wait for a fetch of the leader."),
    ("controller.quorum.election.backoff.max.ms", INT, 1000, ZERO, "The longest pause there."),
    ("controller.quorum.append.linger.ms", INT, 25, ZERO, "How long writes are collected."),
    ("controller.quorum.request.timeout.ms", INT, 2000, ZERO, "Wait for a voter's answer."),
    ("controller.quorum.retry.backoff.ms", INT, 20, ZERO, "Pause before trying again."),
    ("controller.quorum.auto.join.enable", BOOLEAN, False, None, "Join the quorum unasked."),
    ("controller.quorum.fetch.max.bytes", INT, MIB, ONE, "Bytes in one fetch of metadata."),
    ("controller.quorum.fetch.snapshot.max.bytes", INT, MIB, ONE, "Bytes in one of a snapshot."),
    ("broker.heartbeat.interval.ms", INT, 2000, None, "How often a broker reports."),
    ("broker.session.timeout.ms", INT, 9000, None, "A broker silent for so long is gone."),
    ("initial.broker.registration.timeout.ms", INT, 60000, None, "Wait to be registered."),
    ("metadata.log.dir", STRING, None, None, "Where the metadata log is kept."),
    ("metadata.log.segment.bytes", INT, 1024 * MIB, at_least(8 * MIB), "Its segment size."),
    ("metadata.log.segment.ms", LONG, 7 * DAY_MS, None, "Its segments' age."),
    ("metadata.log.max.record.bytes.between.snapshots", LONG, 20 * MIB, ONE, "Between two."),
    ("metadata.log.max.snapshot.interval.ms", LONG, 3600000, ZERO, "Time between snapshots."),
    ("metadata.max.retention.bytes", LONG, 100 * MIB, None, "Bytes of metadata log kept."),
    ("metadata.max.retention.ms", LONG, 7 * DAY_MS, None, "How long metadata log is kept."),
    ("metadata.max.idle.interval.ms", INT, 500, ZERO, "How often an idle quorum writes."),
    ("sasl.mechanism.controller.protocol", STRING, "GSSAPI", None, "SASL to the controllers."),
]

METRICS: list[Row] = [
    ("metric.reporters", LIST, (), list_of(), "Classes that report metrics.", WIDE),
    ("metrics.num.samples", INT, 2, ONE, "Samples kept for a metric."),
    ("metrics.recording.level", STRING, "INFO", None, "How much is measured."),
    ("metrics.sample.window.ms", LONG, 30000, ONE, "The time of one sample."),
    ("kafka.metrics.reporters", LIST, (), list_of(), "Classes that report the older metrics."),
    ("kafka.metrics.polling.interval.secs", INT, 10, ONE, "How often they report."),
    ("telemetry.max.bytes", INT, MIB, ONE, "The largest report that a client may push."),
]

QUOTAS: list[Row] = [
    ("client.quota.callback.class", CLASS, None, None, "A class that decides client quotas."),
    ("quota.window.num", INT, 11, ONE, "Windows kept for client quotas."),
    ("quota.window.size.seconds", INT, 1, ONE, "The time of one of them."),
    ("replication.quota.window.num", INT, 11, ONE, "Windows kept for replication quotas."),
    ("replication.quota.window.size.seconds", INT, 1, ONE, "The time of one of them."),
    ("alter.log.dirs.replication.quota.window.num", INT, 11, ONE, "Windows for moved replicas."),
    ("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, ONE, "The time of one."),
    ("controller.quota.window.num", INT, 11, ONE, "Windows kept for controller quotas."),
    ("controller.quota.window.size.seconds", INT, 1, ONE, "The time of one of them."),
    ("leader.replication.throttled.rate", LONG, LONG_MAX, ZERO, "A leader's rate.", PER_BROKER),
    ("follower.replication.throttled.rate", LONG, LONG_MAX, ZERO, "A follower's.", PER_BROKER),
    (
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        ZERO,
        "The rate of moving replicas between directories.",
        PER_BROKER,
    ),
]

REMOTE: list[Row] = [
    ("remote.log.storage.system.enable", BOOLEAN, False, None, "Tiered storage (KIP-405)."),
    ("remote.log.storage.manager.class.name", STRING, None, None, "The class that stores."),
    ("remote.log.storage.manager.class.path", STRING, None, None, "Where that class is found."),
    ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", None, "Its properties."),
    ("remote.log.metadata.manager.class.name", STRING, None, None, "The class that keeps track."),
    ("remote.log.metadata.manager.class.path", STRING, None, None, "Where that class is found."),
    ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", None, "Its properties."),
    ("remote.log.metadata.manager.listener.name", STRING, None, None, "The listener it uses."),
    ("remote.log.metadata.custom.metadata.max.bytes", INT, 128, ZERO, "Its longest remark."),
    ("remote.log.index.file.cache.total.size.bytes", LONG, 1024 * MIB, ONE, "Cache.", WIDE),
    ("remote.log.manager.thread.pool.size", INT, 2, ONE, "Threads."),
    ("remote.log.manager.copier.thread.pool.size", INT, 10, ONE, "Copying threads.", WIDE),
    ("remote.log.manager.expiration.thread.pool.size", INT, 10, ONE, "Deleting threads.", WIDE),
    ("remote.log.manager.follower.thread.pool.size", INT, 2, ONE, "Following threads.", WIDE),
    ("remote.log.manager.task.interval.ms", LONG, 30000, ONE, "How often they run."),
    ("remote.log.manager.task.retry.backoff.ms", LONG, 500, ONE, "Pause after a failure."),
    ("remote.log.manager.task.retry.backoff.max.ms", LONG, 30000, ONE, "The longest such pause."),
    ("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5), "Its spread."),
    ("remote.log.reader.threads", INT, 10, ONE, "Reading threads.", WIDE),
    ("remote.log.reader.max.pending.tasks", INT, 100, ONE, "Reads that may wait."),
    ("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, ONE, "Copy rate.", WIDE),
    ("remote.log.manager.copy.quota.window.num", INT, 11, ONE, "Windows to measure it."),
    ("remote.log.manager.copy.quota.window.size.seconds", INT, 1, ONE, "The time of one."),
    ("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, ONE, "Fetch rate.", WIDE),
    ("remote.log.manager.fetch.quota.window.num", INT, 11, ONE, "Windows to measure it."),
    ("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, ONE, "The time of one."),
    ("remote.fetch.max.wait.ms", INT, 500, ONE, "How long a fetch waits for it.", WIDE),
    ("remote.list.offsets.request.timeout.ms", LONG, 30000, ONE, "ListOffsets' wait.", WIDE),
    ("log.local.retention.ms", LONG, -2, at_least(-2), "Age of tiered data kept here.", WIDE),
    ("log.local.retention.bytes", LONG, -2, at_least(-2), "Size of it kept here.", WIDE),
    ("log.remote.copy.lag.ms", LONG, 0, at_least(-1), "Age at which data is copied.", WIDE),
    ("log.remote.copy.lag.bytes", LONG, -1, at_least(-1), "Size at which it is.", WIDE),
]

CLUSTER = THREADS + REPLICATION + KRAFT + METRICS + QUOTAS + REMOTE
