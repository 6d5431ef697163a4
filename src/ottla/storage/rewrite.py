"""The checks and changes that some topics' settings ask for before a batch is written.

    message.timestamp.type=LogAppendTime      every record gets the time of the append
    compression.type other than `producer`    the payload is recompressed
    cleanup.policy=compact                    a record without a key is refused
    message.timestamp.before.max.ms           every record's timestamp is checked

All other topics' batches go to disk as they came, and the broker reads their headers only.
"""

from __future__ import annotations

from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.records import compression
from ottla.records.batch import (
    LOG_APPEND_TIME_BIT,
    AppendOrigin,
    BatchHeader,
    check_batches,
    rewrite_timestamps,
)
from ottla.records.rebuild import recompress
from ottla.records.record import check_keys, read_records
from ottla.storage.log_config import COMPACT, LOG_APPEND_TIME, LONG_MAX, PRODUCER, LogConfig

# The records of a batch are checked on the event loop, while all other clients wait. Hence limits:
# on their number, and on their decompressed size unless max.message.bytes is larger.
RECORDS_LOOKED_AT_MAX: Final = 50_000
UNPACKED_SIZE_MAX: Final = 32 * 1024 * 1024

CODECS = {
    "uncompressed": compression.NONE,
    "gzip": compression.GZIP,
    "snappy": compression.SNAPPY,
    "lz4": compression.LZ4,
    "zstd": compression.ZSTD,
}


def rewrite_batches(
    data: memoryview,
    headers: list[BatchHeader],
    config: LogConfig,
    now_ms: int,
    origin: AppendOrigin,
) -> tuple[memoryview, list[BatchHeader]]:
    """The bytes to write and their headers; KafkaError for records that this topic refuses."""
    compacts = COMPACT in config.cleanup_policy
    stamped = config.message_timestamp_type == LOG_APPEND_TIME
    before_max_ms = config.message_timestamp_before_max_ms
    ages = before_max_ms != LONG_MAX and not stamped
    if (compacts or ages) and origin == AppendOrigin.CLIENT:
        check_counts(headers)
    if compacts:
        for header in headers:
            if not header.control:
                check_keys(data, header, size_max=unpacked_size_max(config))
    if ages:
        for header in headers:
            _check_age(data, header, config, now_ms - before_max_ms)
    if config.compression_type != PRODUCER:
        data, headers = _pack(data, headers, config, origin)
    if stamped:
        for header in headers:
            rewrite_timestamps(data, header.position, now_ms)
            header.max_timestamp = now_ms
            header.attributes |= LOG_APPEND_TIME_BIT
    return data, headers


def unpacked_size_max(config: LogConfig) -> int:
    return max(UNPACKED_SIZE_MAX, config.max_message_bytes)


def check_counts(headers: list[BatchHeader]) -> None:
    """A batch of 50 KB can hold 100,000 records, and all other clients wait while they are checked.
    The Java producer splits a batch that gets MESSAGE_TOO_LARGE."""
    count = sum(header.record_count for header in headers)
    if count > RECORDS_LOOKED_AT_MAX:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{count} records; a topic that checks each record takes {RECORDS_LOOKED_AT_MAX}",
        )


def _check_age(data: memoryview, header: BatchHeader, config: LogConfig, earliest: int) -> None:
    for record in read_records(data, header, size_max=unpacked_size_max(config)):
        if 0 <= record.timestamp < earliest:
            raise KafkaError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {record.timestamp} is {earliest - record.timestamp} ms older than "
                "message.timestamp.before.max.ms allows",
            )


def _pack(
    data: memoryview, headers: list[BatchHeader], config: LogConfig, origin: AppendOrigin
) -> tuple[memoryview, list[BatchHeader]]:
    codec = CODECS[config.compression_type]
    level = {
        compression.GZIP: config.compression_gzip_level,
        compression.LZ4: config.compression_lz4_level,
        compression.ZSTD: config.compression_zstd_level,
    }.get(codec)
    packed = bytearray()
    for header in headers:
        batch = recompress(data, header, codec, level=level, size_max=unpacked_size_max(config))
        packed += data[header.position : header.position + header.size] if batch is None else batch
    view = memoryview(packed)
    size_max = config.max_message_bytes
    return view, check_batches(view, batch_size_max=size_max, origin=origin)
