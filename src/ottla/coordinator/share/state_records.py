"""The records of `__share_group_state`, byte for byte as Kafka writes them.

A key opens with its type as int16: 0 a snapshot, 1 an update of it; then group string, topic id,
partition int32. A value opens with its version, 0, and is flexible; a null value is a tombstone.

    snapshot   snapshot epoch int32, state epoch int32, leader epoch int32, start offset int64,
               created int64, written int64, batches; tag 0: delivery complete count int32
    update     snapshot epoch int32, leader epoch int32, start offset int64 (-1: as before),
               batches; tag 0: delivery complete count int32
    a batch    first offset int64, last offset int64, state int8, delivery count int16
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.coordinator.share.record_state import STORABLE, RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import (
    READ_ERRORS,
    MalformedError,
    read_compact_count,
    read_string,
    read_tag,
    read_uvarint,
    write_compact_count,
    write_string,
    write_uvarint,
)

STATE_TOPIC: Final = "__share_group_state"
UNKNOWN: Final = -1  # a start offset that was not set, a count that is not known

_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_COUNT_TAG: Final = 0
_UUID_SIZE: Final = 16
_TYPE: Final = struct.Struct(">h")
_TOPIC_PARTITION: Final = struct.Struct(">16si")
_SNAPSHOT_VALUE: Final = struct.Struct(">hiiiqqq")
_UPDATE_VALUE: Final = struct.Struct(">hiiq")
_BATCH: Final = struct.Struct(">qqbh")
_INT32: Final = struct.Struct(">i")


class SharePartitionKey(NamedTuple):
    """One partition as one group shares it."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """As in FindCoordinator; its hash chooses the partition of the topic."""
        topic_id = base64.urlsafe_b64encode(self.topic_id).decode().rstrip("=")
        return f"{self.group_id}:{topic_id}:{self.partition}"


def is_share_partition_key(text: str) -> bool:
    """True if a text is the name of a share-partition."""
    group_id, topic_id, partition = ["", "", *text.rsplit(":", 2)][-3:]
    if not group_id or not partition.isdecimal():
        return False
    try:
        return len(base64.urlsafe_b64decode(topic_id + "==")) == _UUID_SIZE
    except ValueError:
        return False


class SharePartitionState(NamedTuple):
    """The stored state of a share-partition."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNKNOWN
    delivery_complete_count: int = UNKNOWN
    created_ms: int = -1
    written_ms: int = -1
    batches: tuple[StateBatch, ...] = ()


class SharePartitionUpdate(NamedTuple):
    """A change after a snapshot; `batches` are those that changed."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def write_snapshot_key(key: SharePartitionKey) -> bytes:
    return _key(_SNAPSHOT, key)


def write_update_key(key: SharePartitionKey) -> bytes:
    return _key(_UPDATE, key)


def write_snapshot(state: SharePartitionState) -> bytes:
    head = _SNAPSHOT_VALUE.pack(
        0,
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.created_ms,
        state.written_ms,
    )
    return _value(head, state.batches, state.delivery_complete_count)


def write_update(update: SharePartitionUpdate) -> bytes:
    head = _UPDATE_VALUE.pack(0, update.snapshot_epoch, update.leader_epoch, update.start_offset)
    return _value(head, update.batches, update.delivery_complete_count)


def read_snapshot_key(key: bytes) -> SharePartitionKey | None:
    """The share-partition of a snapshot; None if the record is of another type."""
    if _TYPE.unpack_from(key, 0) != (_SNAPSHOT,):
        return None
    return _read_key(key)


def read_state_record(
    key: bytes, value: bytes | None
) -> tuple[SharePartitionKey, SharePartitionState | SharePartitionUpdate | None] | None:
    """The share-partition, and its state or update, None in a tombstone.

    None if the type of the record is unknown.
    """
    try:
        (kind,) = _TYPE.unpack_from(key, 0)
        if kind not in (_SNAPSHOT, _UPDATE):
            return None
        state_key = _read_key(key)
        if value is None:
            return state_key, None
        if _TYPE.unpack_from(value, 0) != (0,):
            raise _malformed("a version that is not known")
        return state_key, _read_snapshot(value) if kind == _SNAPSHOT else _read_update(value)
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(str(error)) from error


def _read_key(key: bytes) -> SharePartitionKey:
    group_id, position = read_string(key, _TYPE.size)
    topic_id, partition = _TOPIC_PARTITION.unpack_from(key, position)
    return SharePartitionKey(group_id, topic_id, partition)


def _read_snapshot(value: bytes) -> SharePartitionState:
    _, snapshot_epoch, state_epoch, leader_epoch, start_offset, created_ms, written_ms = (
        _SNAPSHOT_VALUE.unpack_from(value, 0)
    )
    batches, count = _read_rest(value, _SNAPSHOT_VALUE.size)
    return SharePartitionState(
        snapshot_epoch, state_epoch, leader_epoch, start_offset, count, created_ms, written_ms,
        batches,
    )  # fmt: skip


def _read_update(value: bytes) -> SharePartitionUpdate:
    _, snapshot_epoch, leader_epoch, start_offset = _UPDATE_VALUE.unpack_from(value, 0)
    batches, count = _read_rest(value, _UPDATE_VALUE.size)
    return SharePartitionUpdate(snapshot_epoch, leader_epoch, start_offset, count, batches)


def _key(kind: int, key: SharePartitionKey) -> bytes:
    buffer = bytearray(_TYPE.pack(kind))
    write_string(buffer, key.group_id)
    buffer += _TOPIC_PARTITION.pack(key.topic_id, key.partition)
    return bytes(buffer)


def _value(head: bytes, batches: Iterable[StateBatch], delivery_complete_count: int) -> bytes:
    buffer = bytearray(head)
    batches = tuple(batches)
    write_compact_count(buffer, len(batches))
    for batch in batches:
        buffer += _BATCH.pack(*batch)
        buffer.append(0)
    if delivery_complete_count == UNKNOWN:
        buffer.append(0)
    else:
        buffer.append(1)
        write_uvarint(buffer, _COUNT_TAG)
        write_uvarint(buffer, _INT32.size)
        buffer += _INT32.pack(delivery_complete_count)
    return bytes(buffer)


def _read_rest(value: bytes, position: int) -> tuple[tuple[StateBatch, ...], int]:
    count, position = read_compact_count(value, position)
    batches = []
    for _ in range(count):
        first, last, state, delivery_count = _BATCH.unpack_from(value, position)
        if state not in STORABLE or first > last:
            raise _malformed(f"state {state} of offsets {first} to {last}")
        batches.append(StateBatch(first, last, RecordState(state), delivery_count))
        _, position = _read_tags(value, position + _BATCH.size)
    delivery_complete_count, position = _read_tags(value, position)
    return tuple(batches), delivery_complete_count


def _read_tags(value: bytes, position: int) -> tuple[int, int]:
    """The value of the one known tag, and where the tags end."""
    found = UNKNOWN
    count, position = read_uvarint(value, position)
    for _ in range(count):
        tag, position, end = read_tag(value, position)
        if tag == _COUNT_TAG:
            (found,) = _INT32.unpack_from(value, position)
        position = end
    return found, position


def _malformed(what: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of {STATE_TOPIC} has {what}")
