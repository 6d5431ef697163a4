"""The records of `__consumer_offsets` that keep a share group, byte for byte as Kafka writes them.

A key opens with its type as int16, and is the group's id, or that and a member's:

    10  member      rack nullable string, client id, client host, subscribed topics
    11  group       epoch int32, hash of the topics' metadata int64
    12  target      assignment epoch int32; tag 0: when it was made int64 (KIP-1263)
    13  target of a member        topics (id, partitions)
    14  assignment of a member    epoch int32, the one before int32, state int8, topics
    15  partitions with a state   being initialized, initialized (id, name, partitions each),
                                  being deleted (id, name)

Values open with their version, 0, and are flexible. A null value is a tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.primitives import (
    READ_ERRORS,
    MalformedError,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_numbers,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
    write_compact_strings,
    write_numbers,
    write_string,
)

Partitions = Mapping[bytes, tuple[int, ...]]  # by topic id, in order

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_GROUP: Final = struct.Struct(">hiq")
_TARGET: Final = struct.Struct(">hi")
_CURRENT: Final = struct.Struct(">hiib")
_UUID_SIZE: Final = 16
_STABLE: Final = 0  # the one state of a member: what it is assigned, it has


class ShareKey(IntEnum):
    """What a record is about."""

    MEMBER = 10
    GROUP = 11
    TARGET = 12
    MEMBER_TARGET = 13
    MEMBER_CURRENT = 14
    STATE_PARTITIONS = 15


OF_MEMBERS: Final = frozenset({ShareKey.MEMBER, ShareKey.MEMBER_TARGET, ShareKey.MEMBER_CURRENT})


class StoredMember(NamedTuple):
    """Who a member is and what it wants."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed: tuple[str, ...]


class StoredCurrent(NamedTuple):
    """What a member was told."""

    epoch: int
    previous_epoch: int
    partitions: Partitions


class StatePartitions(NamedTuple):
    """A topic of whose partitions there are states."""

    name: str
    partitions: tuple[int, ...]


def write_key(kind: ShareKey, group_id: str, member_id: str = "") -> bytes:
    buffer = bytearray(_INT16.pack(kind))
    write_string(buffer, group_id)
    if kind in OF_MEMBERS:
        write_string(buffer, member_id)
    return bytes(buffer)


def read_share_key(key: bytes) -> tuple[ShareKey, str, str] | None:
    """Kind, group and member; None if the record is not of a share group."""
    if len(key) < _INT16.size or _INT16.unpack_from(key)[0] not in set(ShareKey):
        return None
    kind = ShareKey(_INT16.unpack_from(key)[0])
    try:
        group_id, position = read_string(key, _INT16.size)
        member_id = read_string(key, position)[0] if kind in OF_MEMBERS else ""
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error
    return kind, group_id, member_id


# -- values


def write_member(member: StoredMember) -> bytes:
    buffer = bytearray(_INT16.pack(0))
    write_compact_nullable_string(buffer, member.rack_id)
    write_compact_string(buffer, member.client_id)
    write_compact_string(buffer, member.client_host)
    write_compact_count(buffer, len(member.subscribed))
    write_compact_strings(buffer, member.subscribed)
    buffer.append(0)
    return bytes(buffer)


def write_group(epoch: int, metadata_hash: int) -> bytes:
    return _GROUP.pack(0, epoch, metadata_hash) + b"\x00"


def write_target(assignment_epoch: int, made_ms: int) -> bytes:
    tags = b"\x01\x00\x08" + _INT64.pack(made_ms) if made_ms else b"\x00"
    return _TARGET.pack(0, assignment_epoch) + tags


def write_member_target(partitions: Partitions) -> bytes:
    buffer = bytearray(_INT16.pack(0))
    _write_partitions(buffer, partitions)
    buffer.append(0)
    return bytes(buffer)


def write_current(current: StoredCurrent) -> bytes:
    buffer = bytearray(_CURRENT.pack(0, current.epoch, current.previous_epoch, _STABLE))
    _write_partitions(buffer, current.partitions)
    buffer.append(0)
    return bytes(buffer)


def write_state_partitions(initialized: Mapping[bytes, StatePartitions]) -> bytes:
    """Nothing is ever found half-way: initializing and deleting are done within one request."""
    buffer = bytearray(_INT16.pack(0))
    write_compact_count(buffer, 0)
    write_compact_count(buffer, len(initialized))
    for topic_id, topic in initialized.items():
        buffer += topic_id
        write_compact_string(buffer, topic.name)
        write_compact_count(buffer, len(topic.partitions))
        write_numbers(buffer, topic.partitions, "i")
        buffer.append(0)
    write_compact_count(buffer, 0)
    buffer.append(0)
    return bytes(buffer)


def read_member(value: bytes) -> StoredMember:
    try:
        rack_id, position = read_compact_nullable_string(value, _version(value))
        client_id, position = read_compact_string(value, position)
        client_host, position = read_compact_string(value, position)
        count, position = read_compact_count(value, position)
        subscribed, _ = read_compact_strings(value, position, count)
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error
    return StoredMember(rack_id, client_id, client_host, tuple(subscribed))


def read_group(value: bytes) -> tuple[int, int]:
    """The group's epoch, and the hash of what it knows of its topics."""
    try:
        _version(value)
        _, epoch, metadata_hash = _GROUP.unpack_from(value)
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error
    return epoch, metadata_hash


def read_target(value: bytes) -> tuple[int, int]:
    """The epoch of the assignment, and when it was made; 0 if that is not known."""
    made_ms = 0
    try:
        _version(value)
        _, epoch = _TARGET.unpack_from(value)
        count, position = read_uvarint(value, _TARGET.size)
        for _ in range(count):
            tag, position, end = read_tag(value, position)
            if tag == 0:
                (made_ms,) = _INT64.unpack_from(value, position)
            position = end
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error
    return epoch, made_ms


def read_member_target(value: bytes) -> Partitions:
    try:
        return _read_partitions(value, _version(value))[0]
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error


def read_current(value: bytes) -> StoredCurrent:
    try:
        _version(value)
        _, epoch, previous_epoch, _ = _CURRENT.unpack_from(value)
        return StoredCurrent(epoch, previous_epoch, _read_partitions(value, _CURRENT.size)[0])
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error


def read_state_partitions(value: bytes) -> dict[bytes, StatePartitions]:
    """What is initialized. What Kafka was about to initialize will be, with the next heartbeat."""
    try:
        _, position = _read_topics(value, _version(value))
        return _read_topics(value, position)[0]
    except (*READ_ERRORS, MalformedError) as error:
        raise _malformed(error) from error


def _read_topics(value: bytes, position: int) -> tuple[dict[bytes, StatePartitions], int]:
    topics = {}
    count, position = read_compact_count(value, position)
    for _ in range(count):
        topic_id, position = _take_uuid(value, position)
        name, position = read_compact_string(value, position)
        size, position = read_compact_count(value, position)
        partitions, position = read_numbers(value, position, size, "i")
        position = skip_tags(value, position)
        topics[topic_id] = StatePartitions(name, tuple(partitions))
    return topics, position


def _write_partitions(buffer: bytearray, partitions: Partitions) -> None:
    write_compact_count(buffer, len(partitions))
    for topic_id, indexes in partitions.items():
        buffer += topic_id
        write_compact_count(buffer, len(indexes))
        write_numbers(buffer, indexes, "i")
        buffer.append(0)


def _read_partitions(value: bytes, position: int) -> tuple[Partitions, int]:
    partitions = {}
    count, position = read_compact_count(value, position)
    for _ in range(count):
        topic_id, position = _take_uuid(value, position)
        size, position = read_compact_count(value, position)
        indexes, position = read_numbers(value, position, size, "i")
        position = skip_tags(value, position)
        partitions[topic_id] = tuple(indexes)
    return partitions, position


def _take_uuid(value: bytes, position: int) -> tuple[bytes, int]:
    end = position + _UUID_SIZE
    if end > len(value):
        raise MalformedError("a topic id that is cut short")
    return bytes(value[position:end]), end


def _version(value: bytes) -> int:
    """Where the fields begin, if it is a version that is known."""
    if _INT16.unpack_from(value) != (0,):
        raise MalformedError("a version that is not known")
    return _INT16.size


def _malformed(error: Exception) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a share group's record: {error}")
