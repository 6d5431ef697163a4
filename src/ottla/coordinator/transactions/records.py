"""The records of `__transaction_state`, byte for byte as Kafka writes them.

    key       type int16 (0), transactional id string
    value v0  producer id int64, producer epoch int16, timeout int32, state int8, partitions
              (topic string, indexes [int32]) or null, last update int64, start int64
    value v1  as v0, flexible; tags: 0 previous producer id int64, 1 next producer id int64,
              2 client's transaction version int16, 3 next producer epoch int16 (KIP-939)

A value opens with its version as int16; a null value is a tombstone. Kafka writes v1 from
transaction.version 1 on, as Ottla does; v0 is what older brokers wrote. The partitions are null in
state Empty. A tag with its default (-1; 0 for the client's version) is left out.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.coordinator.transactions.transaction import (
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionMetadata,
    TransactionState,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import (
    READ_ERRORS,
    MalformedError,
    read_compact_count,
    read_compact_nullable_count,
    read_compact_string,
    read_count,
    read_nullable_count,
    read_numbers,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    write_compact_count,
    write_compact_string,
    write_numbers,
    write_string,
    write_uvarint,
)

TRANSACTIONS_TOPIC: Final = "__transaction_state"

_KEY_TYPE: Final = 0
_VALUE: Final = 1
_FLEXIBLE_FROM: Final = 1
_VALUE_VERSION_MAX: Final = 1
_PREVIOUS_ID_TAG: Final = 0
_NEXT_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qhib")
_TIMES: Final = struct.Struct(">qq")


def write_key(transactional_id: str) -> bytes:
    buffer = bytearray(_INT16.pack(_KEY_TYPE))
    write_string(buffer, transactional_id)
    return bytes(buffer)


def read_key(data: bytes) -> str | None:
    """The transactional id; None for an unknown type of key (KIP-915)."""
    try:
        (kind,) = _INT16.unpack_from(data)
        return read_string(data, 2)[0] if kind == _KEY_TYPE else None
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed_record(f"a key which cannot be read: {error}") from error


def write_value(transaction: TransactionMetadata) -> bytes:
    buffer = bytearray(_INT16.pack(_VALUE))
    buffer += _HEAD.pack(
        transaction.producer_id,
        transaction.epoch,
        transaction.timeout_ms,
        transaction.state.value,
    )
    if transaction.state is TransactionState.EMPTY:
        write_compact_count(buffer, -1)
    else:
        _write_partitions(buffer, transaction.partitions)
    buffer += _TIMES.pack(transaction.update_ms, transaction.start_ms)
    _write_tags(buffer, transaction)
    return bytes(buffer)


def _write_partitions(buffer: bytearray, partitions: frozenset[TopicPartition]) -> None:
    """By topic, in order: the same set always gives the same bytes."""
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
    write_compact_count(buffer, len(by_topic))
    for topic, indexes in by_topic.items():
        write_compact_string(buffer, topic)
        write_compact_count(buffer, len(indexes))
        write_numbers(buffer, indexes, "i")
        buffer.append(0)


def _write_tags(buffer: bytearray, transaction: TransactionMetadata) -> None:
    tags: list[tuple[int, bytes]] = []
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_ID_TAG, _INT64.pack(transaction.previous_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags.append((_NEXT_ID_TAG, _INT64.pack(transaction.next_producer_id)))
    if transaction.client_version:
        tags.append((_CLIENT_VERSION_TAG, _INT16.pack(transaction.client_version)))
    write_uvarint(buffer, len(tags))
    for tag, value in tags:
        write_uvarint(buffer, tag)
        write_uvarint(buffer, len(value))
        buffer += value


def read_value(data: bytes) -> TransactionMetadata:
    try:
        (version,) = _INT16.unpack_from(data)
        if not 0 <= version <= _VALUE_VERSION_MAX:
            raise _malformed_record(f"a value of version {version}")
        return _read_value(data, version)
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed_record(f"a value which cannot be read: {error}") from error


def _read_value(data: bytes, version: int) -> TransactionMetadata:
    flexible = version >= _FLEXIBLE_FROM
    producer_id, epoch, timeout_ms, state = _HEAD.unpack_from(data, 2)
    partitions, position = _read_partitions(data, 2 + _HEAD.size, flexible)
    update_ms, start_ms = _TIMES.unpack_from(data, position)
    tags = _read_tags(data, position + _TIMES.size) if flexible else {}
    return TransactionMetadata(
        producer_id,
        epoch,
        timeout_ms,
        TransactionState(state),
        partitions,
        start_ms,
        update_ms,
        _number(tags, _PREVIOUS_ID_TAG, _INT64, NO_PRODUCER_ID),
        _number(tags, _NEXT_ID_TAG, _INT64, NO_PRODUCER_ID),
        _number(tags, _CLIENT_VERSION_TAG, _INT16, 0),
    )


def _read_partitions(
    data: bytes, position: int, flexible: bool
) -> tuple[frozenset[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    count, position = (read_compact_nullable_count if flexible else read_nullable_count)(
        data, position
    )
    for _ in range(count):
        topic, position = (read_compact_string if flexible else read_string)(data, position)
        length, position = (read_compact_count if flexible else read_count)(data, position)
        indexes, position = read_numbers(data, position, length, "i")
        position = skip_tags(data, position) if flexible else position
        partitions += [(topic, index) for index in indexes]
    return frozenset(partitions), position


def _read_tags(data: bytes, position: int) -> dict[int, bytes]:
    tags: dict[int, bytes] = {}
    count, position = read_uvarint(data, position)
    for _ in range(count):
        tag, start, position = read_tag(data, position)
        tags[tag] = data[start:position]
    return tags


def _number(tags: dict[int, bytes], tag: int, kind: struct.Struct, default: int) -> int:
    value = tags.get(tag)
    return default if value is None else int(kind.unpack(value)[0])


def _malformed_record(what: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of {TRANSACTIONS_TOPIC} has {what}")
