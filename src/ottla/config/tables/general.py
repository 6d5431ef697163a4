"""Broker properties: identity, sockets, topics, replication, and Ottla's own."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    MIB,
    STRING,
    ConfigDefinition,
    at_least,
    between,
    list_of,
    one_of,
)

D = ConfigDefinition

MESSAGE_MAX_BYTES = MIB + 12
"""One mebibyte of record batch and the twelve bytes (offset, length) that precede its body."""

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
PROTOCOL_MAP = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"


def gzip_level(value: object) -> str | None:
    if value == -1 or (isinstance(value, int) and 1 <= value <= 9):
        return None
    return "Value must be between 1 and 9 or equal to -1"


IDENTITY = [
    D("node.id", INT, 0, at_least(0), "This broker's id, unique in its cluster."),
    D("broker.id", INT, -1, None, "The old name of node.id; if both are set they must agree."),
    D(
        "broker.rack",
        STRING,
        None,
        None,
        "The rack of this broker; replicas are spread over racks.",
    ),
    D(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        None,
        "Move leadership to other brokers before stopping, so that clients need not wait for "
        "the failure to be detected.",
    ),
]

SOCKETS = [
    D(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        list_of(empty=False),
        "Where to listen: NAME://host:port, comma separated. An empty host means all "
        "interfaces, port 0 any free port. Kafka listens on all interfaces by default, Ottla on"
        " this machine only.",
    ),
    D(
        "advertised.listeners",
        LIST,
        None,
        list_of(empty=False),
        "The addresses that clients connect to, if they differ from listeners (NAT, containers).",
    ),
    D(
        "listener.security.protocol.map",
        STRING,
        PROTOCOL_MAP,
        None,
        "The security protocol of each listener name: NAME:PROTOCOL, comma separated.",
    ),
    D(
        "inter.broker.listener.name",
        STRING,
        None,
        None,
        "The listener for connections between brokers; the first one if unset.",
    ),
    D(
        "socket.send.buffer.bytes",
        INT,
        MIB,
        at_least(-1),
        "SO_SNDBUF of a client's socket; -1 leaves it to the operating system.",
    ),
    D(
        "socket.receive.buffer.bytes",
        INT,
        MIB,
        at_least(-1),
        "SO_RCVBUF of a client's socket; -1 leaves it to the operating system.",
    ),
    D(
        "socket.request.max.bytes",
        INT,
        100 * MIB,
        at_least(1),
        "The largest request; a larger one closes its connection.",
    ),
    D(
        "socket.listen.backlog.size",
        INT,
        1024,
        at_least(1),
        "How many connections may wait to be accepted.",
    ),
    D(
        "max.connections",
        INT,
        INT_MAX,
        at_least(0),
        "Open connections, over all listeners.",
        CLUSTER_WIDE,
    ),
    D(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        at_least(0),
        "Open connections from one address. Zero only together with overrides.",
        CLUSTER_WIDE,
    ),
    D(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        None,
        "Exceptions to max.connections.per.ip: address:count, comma separated.",
        CLUSTER_WIDE,
    ),
    D(
        "max.connection.creation.rate",
        INT,
        INT_MAX,
        at_least(0),
        "New connections accepted per second.",
        CLUSTER_WIDE,
    ),
    D(
        "connections.max.idle.ms",
        LONG,
        10 * 60 * 1000,
        None,
        "Close a connection that has been idle for this long; negative means never.",
    ),
    D(
        "queued.max.requests",
        INT,
        500,
        at_least(1),
        "Accepted but not used: there is no queue between the network and the handlers.",
    ),
    D(
        "queued.max.request.bytes",
        LONG,
        -1,
        None,
        "Accepted but not used: there is no queue between the network and the handlers.",
    ),
    D(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        at_least(0),
        "How long the response to a failed authentication is delayed, to slow down the guessing"
        " of passwords.",
    ),
]

TOPICS = [
    D(
        "auto.create.topics.enable",
        BOOLEAN,
        True,
        None,
        "Create a topic when a client asks for its metadata and allows it.",
    ),
    D("delete.topic.enable", BOOLEAN, True, None, "Whether topics may be deleted."),
    D("num.partitions", INT, 1, at_least(1), "Partitions of a topic created without a count."),
    D(
        "default.replication.factor",
        INT,
        1,
        at_least(1),
        "Replicas of a topic created without a count.",
    ),
    D(
        "message.max.bytes",
        INT,
        MESSAGE_MAX_BYTES,
        at_least(0),
        "The largest record batch accepted, after compression; max.message.bytes for one topic.",
        CLUSTER_WIDE,
    ),
    D(
        "min.insync.replicas",
        INT,
        1,
        at_least(1),
        "With acks=all, how many replicas must have a batch; with fewer in the ISR it is refused.",
        CLUSTER_WIDE,
    ),
    D(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "Let a replica that is out of sync become leader when no other is left, at the price of"
        " lost records.",
        CLUSTER_WIDE,
    ),
    D(
        "compression.type",
        STRING,
        "producer",
        one_of(*COMPRESSION_TYPES),
        "How batches are stored: as the producer sent them, or with the codec named here.",
        CLUSTER_WIDE,
    ),
    D(
        "compression.gzip.level",
        INT,
        -1,
        gzip_level,
        "The level when compression.type is gzip; -1 is zlib's own.",
        CLUSTER_WIDE,
    ),
    D(
        "compression.lz4.level",
        INT,
        9,
        between(1, 17),
        "The level when compression.type is lz4.",
        CLUSTER_WIDE,
    ),
    D(
        "compression.zstd.level",
        INT,
        3,
        between(-131072, 22),
        "The level when compression.type is zstd.",
        CLUSTER_WIDE,
    ),
]

FETCHES = [
    D(
        "fetch.max.bytes",
        INT,
        55 * MIB,
        at_least(1024),
        "The most bytes in one fetch response, whatever the client asks for.",
    ),
    D(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        at_least(0),
        "The most incremental fetch sessions (KIP-227) in the cache.",
    ),
    D(
        "max.request.partition.size.limit",
        INT,
        2000,
        at_least(1),
        "The most partitions in one DescribeTopicPartitions response, whatever the client asks "
        "for.",
    ),
    D(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5000,
        None,
        "How often high watermarks are written to disk.",
    ),
    D(
        "replica.lag.time.max.ms",
        LONG,
        30000,
        None,
        "A follower that has not caught up for this long leaves the ISR.",
    ),
    D(
        "producer.id.expiration.ms",
        INT,
        86400000,
        at_least(1),
        "A partition forgets an idempotent producer that has been silent for this long.",
        CLUSTER_WIDE,
    ),
    D(
        "producer.id.expiration.check.interval.ms",
        INT,
        600000,
        at_least(1),
        "How often to look for expired idempotent producers.",
        internal=True,
    ),
]

OTTLA = [
    D(
        "metrics.port",
        INT,
        None,
        between(0, 65535),
        "Serve metrics for Prometheus on this port (/metrics); 0 takes any free one, and the "
        "log says which. If unset, no metrics are served or counted.",
    ),
    D(
        "metrics.host",
        STRING,
        None,
        None,
        "Where metrics.port listens; if unset, on the host of the first listener.",
    ),
    D(
        "ottla.metadata.sync.enable",
        BOOLEAN,
        True,
        None,
        "Flush every change of the embedded metadata store to disk; off only in tests.",
    ),
]

QUOTAS = [
    D(
        "telemetry.max.bytes",
        INT,
        MIB,
        at_least(1),
        "The largest push of metrics by a client (KIP-714), compressed as it arrives.",
    ),
    D(
        "quota.window.num",
        INT,
        11,
        at_least(1),
        "The number of windows over which client quotas average rates.",
    ),
    D("quota.window.size.seconds", INT, 1, at_least(1), "The length of each of these windows."),
    D(
        "controller.quota.window.num",
        INT,
        11,
        at_least(1),
        "How many windows' worth of controller_mutation_rate may be used at once.",
    ),
    D(
        "controller.quota.window.size.seconds",
        INT,
        1,
        at_least(1),
        "The length of each of these windows.",
    ),
]

GENERAL = IDENTITY + SOCKETS + TOPICS + FETCHES + QUOTAS + OTTLA
