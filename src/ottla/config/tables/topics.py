"""Topic configs by Kafka's names, and the broker properties that give them their defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ottla.config.definition import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    INT,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    MIB,
    STRING,
    ConfigDefinition,
    Value,
    at_least,
    between,
    list_of,
    one_of,
)
from ottla.config.tables.general import COMPRESSION_TYPES, MESSAGE_MAX_BYTES, gzip_level

MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS

SUBJECT_NAME_STRATEGIES = tuple(
    f"io.confluent.kafka.serializers.subject.{name}Strategy"
    for name in ("TopicName", "RecordName", "TopicRecordName")
)

_THROTTLED = re.compile(r"(\*|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*)?\Z")


def throttled_replicas(value: Value) -> str | None:
    assert isinstance(value, tuple)
    if _THROTTLED.match(",".join(value)):
        return None
    return "must be '*' or a list of [partitionId]:[brokerId],[partitionId]:[brokerId],..."


@dataclass(slots=True)
class BrokerSynonym:
    """A broker property that gives a topic config its default, and the size of its unit."""

    name: str
    factor: int = 1


def _define(*definitions: ConfigDefinition) -> dict[str, ConfigDefinition]:
    return {definition.name: definition for definition in definitions}


D = ConfigDefinition

TOPIC_CONFIGS = _define(
    D(
        "cleanup.policy",
        LIST,
        ("delete",),
        list_of("compact", "delete"),
        "What happens to old segments: delete, compact, both, or if empty nothing.",
    ),
    D(
        "compression.type",
        STRING,
        "producer",
        one_of(*COMPRESSION_TYPES),
        "How batches are stored: as the producer sent them, or with the codec named here.",
    ),
    D(
        "compression.gzip.level",
        INT,
        -1,
        gzip_level,
        "The level when compression.type is gzip; -1 is zlib's own.",
    ),
    D(
        "compression.lz4.level",
        INT,
        9,
        between(1, 17),
        "The level when compression.type is lz4.",
    ),
    D(
        "compression.zstd.level",
        INT,
        3,
        between(-131072, 22),
        "The level when compression.type is zstd.",
    ),
    *(
        definition
        for side in ("key", "value")
        for definition in (
            D(
                f"confluent.{side}.schema.validation",
                BOOLEAN,
                False,
                None,
                f"Refuse a record whose {side} does not name a schema of its subject.",
            ),
            D(
                f"confluent.{side}.subject.name.strategy",
                STRING,
                SUBJECT_NAME_STRATEGIES[0],
                one_of(*SUBJECT_NAME_STRATEGIES),
                f"Which subject the schema of a {side} must belong to, if it is validated.",
            ),
        )
    ),
    D(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        at_least(0),
        "How long a compacted topic keeps a tombstone, for consumers that read it late.",
    ),
    D(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        False,
        None,
        "Let share groups use this topic as their dead letter queue (KIP-1191).",
    ),
    D(
        "file.delete.delay.ms",
        LONG,
        60000,
        at_least(0),
        "A deleted file is renamed first, and removed after this delay.",
    ),
    D(
        "flush.messages",
        LONG,
        LONG_MAX,
        at_least(1),
        "Flush a partition to disk after this many records. Normally left to the operating system.",
    ),
    D(
        "flush.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        "Flush a partition to disk when its oldest unflushed record is this old.",
    ),
    D(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        throttled_replicas,
        "Replicas slowed down on the follower's side: partition:broker pairs, or *.",
        used=False,
    ),
    D(
        "index.interval.bytes",
        INT,
        4 * KIB,
        at_least(0),
        "About this many bytes of log have one index entry.",
    ),
    D(
        "internal.segment.bytes",
        INT,
        None,
        None,
        "Replaces segment.bytes in tests that need small segments.",
        internal=True,
    ),
    D(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        throttled_replicas,
        "Replicas slowed down on the leader's side: partition:broker pairs, or *.",
        used=False,
    ),
    D(
        "local.retention.bytes",
        LONG,
        -2,
        at_least(-2),
        "Tiered storage: size kept here.",
        used=False,
    ),
    D(
        "local.retention.ms",
        LONG,
        -2,
        at_least(-2),
        "Tiered storage: age kept here.",
        used=False,
    ),
    D(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        at_least(1),
        "Records older than this are compacted, however clean the log is.",
    ),
    D(
        "max.message.bytes",
        INT,
        MESSAGE_MAX_BYTES,
        at_least(0),
        "The largest record batch accepted, after compression.",
    ),
    D(
        "message.timestamp.after.max.ms",
        LONG,
        3600000,
        at_least(0),
        "With CreateTime, how far a timestamp may be ahead of the broker's clock.",
    ),
    D(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        "With CreateTime, how far a timestamp may be behind the broker's clock.",
    ),
    D(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock sets a record's timestamp: the producer's (CreateTime), or the broker's at"
        " the append.",
    ),
    D(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        between(0, 1),
        "A log is compacted when this share of it has not been compacted yet.",
    ),
    D(
        "min.compaction.lag.ms",
        LONG,
        0,
        at_least(0),
        "Records younger than this are not compacted.",
    ),
    D(
        "min.insync.replicas",
        INT,
        1,
        at_least(1),
        "With acks=all, how many replicas must have a batch; with fewer in the ISR it is refused.",
    ),
    D(
        "preallocate",
        BOOLEAN,
        False,
        None,
        "Reserve a segment's whole size on disk when it is made.",
    ),
    D(
        "remote.copy.lag.bytes",
        LONG,
        -1,
        at_least(-1),
        "Tiered storage: size at which data is copied.",
        used=False,
    ),
    D(
        "remote.copy.lag.ms",
        LONG,
        0,
        at_least(-1),
        "Tiered storage: age at which data is copied.",
        used=False,
    ),
    D("remote.log.copy.disable", BOOLEAN, False, None, "Tiered storage: copy no more.", used=False),
    D(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        None,
        "Tiered storage: delete the copies when it is switched off.",
        used=False,
    ),
    D(
        "remote.storage.enable",
        BOOLEAN,
        False,
        None,
        "Tiered storage for this topic; this broker has none to offer.",
        used=False,
    ),
    D(
        "retention.bytes",
        LONG,
        -1,
        None,
        "The oldest segments of a partition larger than this are deleted; -1: no limit.",
    ),
    D(
        "retention.ms",
        LONG,
        7 * DAY_MS,
        at_least(-1),
        "Segments older than this are deleted; -1 means no limit.",
    ),
    D(
        "segment.bytes",
        INT,
        1024 * MIB,
        at_least(MIB),
        "A segment file is closed when it would grow past this.",
    ),
    D(
        "segment.index.bytes",
        INT,
        10 * MIB,
        at_least(4),
        "The largest index file; a segment is closed when its index is full.",
    ),
    D(
        "segment.jitter.ms",
        LONG,
        0,
        at_least(0),
        "At most this is subtracted from a segment's age limit, so that not all close at once.",
    ),
    D("segment.ms", LONG, 7 * DAY_MS, at_least(1), "A segment is closed at this age."),
    D(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        None,
        "Let a replica that is out of sync become leader when no other is left, at the price of"
        " lost records.",
    ),
)

TOPIC_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", HOUR_MS)),
    "segment.jitter.ms": (
        BrokerSynonym("log.roll.jitter.ms"),
        BrokerSynonym("log.roll.jitter.hours", HOUR_MS),
    ),
    "flush.ms": (
        BrokerSynonym("log.flush.interval.ms"),
        BrokerSynonym("log.flush.scheduler.interval.ms"),
    ),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", MINUTE_MS),
        BrokerSynonym("log.retention.hours", HOUR_MS),
    ),
    "cleanup.policy": (BrokerSynonym("log.cleanup.policy"),),
    "compression.gzip.level": (BrokerSynonym("compression.gzip.level"),),
    "compression.lz4.level": (BrokerSynonym("compression.lz4.level"),),
    "compression.type": (BrokerSynonym("compression.type"),),
    "compression.zstd.level": (BrokerSynonym("compression.zstd.level"),),
    "delete.retention.ms": (BrokerSynonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (BrokerSynonym("log.segment.delete.delay.ms"),),
    "flush.messages": (BrokerSynonym("log.flush.interval.messages"),),
    "index.interval.bytes": (BrokerSynonym("log.index.interval.bytes"),),
    "local.retention.bytes": (BrokerSynonym("log.local.retention.bytes"),),
    "local.retention.ms": (BrokerSynonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
    "max.message.bytes": (BrokerSynonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (BrokerSynonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (BrokerSynonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (BrokerSynonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (BrokerSynonym("min.insync.replicas"),),
    "preallocate": (BrokerSynonym("log.preallocate"),),
    "remote.copy.lag.bytes": (BrokerSynonym("log.remote.copy.lag.bytes"),),
    "remote.copy.lag.ms": (BrokerSynonym("log.remote.copy.lag.ms"),),
    "retention.bytes": (BrokerSynonym("log.retention.bytes"),),
    "segment.bytes": (BrokerSynonym("log.segment.bytes"),),
    "segment.index.bytes": (BrokerSynonym("log.index.size.max.bytes"),),
    "unclean.leader.election.enable": (BrokerSynonym("unclean.leader.election.enable"),),
}
"""The broker properties behind each topic config's default; the first that is set counts."""
