"""The settings of one topic's logs, under Kafka's names and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.errors import ErrorCode, KafkaError

LONG_MAX = (1 << 63) - 1
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
PRODUCER = "producer"
DELETE = "delete"
COMPACT = "compact"
TOPIC_NAME_STRATEGY = "io.confluent.kafka.serializers.subject.TopicNameStrategy"

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic; replaced as a whole when one of them changes."""

    cleanup_policy: frozenset[str] = frozenset((DELETE,))
    compression_type: str = PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = TOPIC_NAME_STRATEGY
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = TOPIC_NAME_STRATEGY
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = WEEK_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = WEEK_MS
    unclean_leader_election_enable: bool = False

    @property
    def validates_schemas(self) -> bool:
        """True if a producer's records must name schemas of their subjects."""
        return self.confluent_key_schema_validation or self.confluent_value_schema_validation

    @property
    def plain(self) -> bool:
        """True if batches go to disk as they came, and only their headers are read."""
        return (
            self.compression_type == PRODUCER
            and self.message_timestamp_type == CREATE_TIME
            and self.message_timestamp_before_max_ms == LONG_MAX
            and COMPACT not in self.cleanup_policy
        )


def timestamp_too_late(timestamp: int, now_ms: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is {timestamp - now_ms} ms ahead; "
        f"message.timestamp.after.max.ms is {config.message_timestamp_after_max_ms}",
    )
