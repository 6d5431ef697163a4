"""Broker properties of logs: the defaults of topic configs, and timers."""

from __future__ import annotations

from ottla.config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DAY_MS,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    MIB,
    STRING,
    ConfigDefinition,
    at_least,
    between,
    list_of,
    one_of,
)

D = ConfigDefinition

DIRECTORIES = [
    D(
        "log.dir",
        LIST,
        ("/tmp/ottla-logs",),
        list_of(empty=False),
        "Where data is stored; used if log.dirs is unset.",
    ),
    D(
        "log.dirs",
        LIST,
        None,
        list_of(empty=False),
        "Directories for data, comma separated; a new partition goes to the one with the fewest.",
    ),
    D(
        "num.recovery.threads.per.data.dir",
        INT,
        2,
        at_least(1),
        "Threads that read a directory's logs after an unclean shutdown.",
        CLUSTER_WIDE,
    ),
]

SEGMENTS = [
    D(
        "log.segment.bytes",
        INT,
        1024 * MIB,
        at_least(MIB),
        "A segment file is closed when it would grow past this.",
        CLUSTER_WIDE,
    ),
    D(
        "log.roll.ms",
        LONG,
        None,
        None,
        "A segment is closed at this age. If unset, log.roll.hours applies.",
        CLUSTER_WIDE,
    ),
    D("log.roll.hours", INT, 168, at_least(1), "As log.roll.ms, in hours."),
    D(
        "log.roll.jitter.ms",
        LONG,
        None,
        None,
        "At most this is subtracted from a segment's age limit, so that not all close at once. "
        "If unset, log.roll.jitter.hours applies.",
        CLUSTER_WIDE,
    ),
    D("log.roll.jitter.hours", INT, 0, at_least(0), "As log.roll.jitter.ms, in hours."),
    D(
        "log.index.size.max.bytes",
        INT,
        10 * MIB,
        at_least(4),
        "The largest index file; a segment is closed when its index is full.",
        CLUSTER_WIDE,
    ),
    D(
        "log.index.interval.bytes",
        INT,
        4 * KIB,
        at_least(0),
        "About this many bytes of log have one index entry.",
        CLUSTER_WIDE,
    ),
    D(
        "log.preallocate",
        BOOLEAN,
        False,
        None,
        "Reserve a segment's whole size on disk when it is made.",
        CLUSTER_WIDE,
    ),
    D(
        "log.segment.delete.delay.ms",
        LONG,
        60000,
        at_least(0),
        "A deleted file is renamed first, and removed after this delay.",
        CLUSTER_WIDE,
    ),
]

RETENTION = [
    D(
        "log.retention.ms",
        LONG,
        None,
        None,
        "Segments older than this are deleted; -1 means no limit. If unset, "
        "log.retention.minutes applies.",
        CLUSTER_WIDE,
    ),
    D(
        "log.retention.minutes",
        INT,
        None,
        None,
        "As log.retention.ms, in minutes. If unset, log.retention.hours applies.",
    ),
    D("log.retention.hours", INT, 168, None, "As log.retention.ms, in hours."),
    D(
        "log.retention.bytes",
        LONG,
        -1,
        None,
        "The oldest segments of a partition larger than this are deleted; -1: no limit.",
        CLUSTER_WIDE,
    ),
    D(
        "log.retention.check.interval.ms",
        LONG,
        5 * 60 * 1000,
        at_least(1),
        "How often to look for segments to delete.",
    ),
    D(
        "log.cleanup.policy",
        LIST,
        ("delete",),
        list_of("compact", "delete"),
        "What happens to old segments: delete, compact, both, or if empty nothing.",
        CLUSTER_WIDE,
    ),
    D(
        "log.initial.task.delay.ms",
        LONG,
        30000,
        at_least(0),
        "How long after the start the log's periodic tasks first run.",
        internal=True,
    ),
]

FLUSHING = [
    D(
        "log.flush.interval.messages",
        LONG,
        LONG_MAX,
        at_least(1),
        "Flush a partition to disk after this many records. Normally left to the operating system.",
        CLUSTER_WIDE,
    ),
    D(
        "log.flush.interval.ms",
        LONG,
        None,
        None,
        "Flush a partition to disk when its oldest unflushed record is this old. If unset, "
        "log.flush.scheduler.interval.ms applies.",
        CLUSTER_WIDE,
    ),
    D(
        "log.flush.scheduler.interval.ms",
        LONG,
        LONG_MAX,
        None,
        "How often to look for partitions that are due for a flush.",
    ),
    D(
        "log.flush.offset.checkpoint.interval.ms",
        INT,
        60000,
        at_least(0),
        "How often recovery points are written to disk.",
    ),
    D(
        "log.flush.start.offset.checkpoint.interval.ms",
        INT,
        60000,
        at_least(0),
        "How often log start offsets are written to disk.",
    ),
]

TIMESTAMPS = [
    D(
        "log.message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock sets a record's timestamp: the producer's (CreateTime), or the broker's at"
        " the append.",
        CLUSTER_WIDE,
    ),
    D(
        "log.message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        "With CreateTime, how far a timestamp may be behind the broker's clock.",
        CLUSTER_WIDE,
    ),
    D(
        "log.message.timestamp.after.max.ms",
        LONG,
        3600000,
        at_least(0),
        "With CreateTime, how far a timestamp may be ahead of the broker's clock.",
        CLUSTER_WIDE,
    ),
]

CLEANER = [
    D(
        "log.cleaner.enable",
        BOOLEAN,
        True,
        None,
        "Run the cleaner, which compacts topics with cleanup.policy=compact.",
    ),
    D("log.cleaner.threads", INT, 1, at_least(0), "Cleaner threads.", CLUSTER_WIDE),
    D(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        DOUBLE_MAX,
        None,
        "The most bytes per second that the cleaner reads and writes, on average.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 * MIB,
        None,
        "Memory for the cleaner's table of keys, for all its threads together.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.io.buffer.size",
        INT,
        512 * KIB,
        at_least(0),
        "Memory for the cleaner's reads and writes, for all its threads together.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        None,
        "How full the table of keys may become before a cleaning ends.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.backoff.ms",
        LONG,
        15000,
        at_least(0),
        "How long the cleaner sleeps when nothing needs cleaning.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        between(0, 1),
        "A log is compacted when this share of it has not been compacted yet.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.delete.retention.ms",
        LONG,
        DAY_MS,
        at_least(0),
        "How long a compacted topic keeps a tombstone, for consumers that read it late.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        at_least(0),
        "Records younger than this are not compacted.",
        CLUSTER_WIDE,
    ),
    D(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        at_least(1),
        "Records older than this are compacted, however clean the log is.",
        CLUSTER_WIDE,
    ),
]

LOGS = DIRECTORIES + SEGMENTS + RETENTION + FLUSHING + TIMESTAMPS + CLEANER
