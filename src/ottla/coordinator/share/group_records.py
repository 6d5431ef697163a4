"""The records of a share group in `__consumer_offsets`, byte for byte as Kafka writes them.

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

from ottla.coordinator.modern_records import (
    ModernRecordKeys,
    check_version,
    corrupt_if_malformed,
    read_target_metadata,
    write_target_metadata,
)
from ottla.wire.fields import (
    MalformedError,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_numbers,
    skip_tags,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
    write_compact_strings,
    write_numbers,
)

Partitions = Mapping[bytes, tuple[int, ...]]  # by topic id, in order

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_GROUP: Final = struct.Struct(">hiq")
_TARGET: Final = struct.Struct(">hi")
_CURRENT: Final = struct.Struct(">hiib")
_UUID_SIZE: Final = 16
_STABLE: Final = 0  # the only state of a member: it has what it was assigned


class ShareGroupRecordType(IntEnum):
    """The types of records."""

    MEMBER = 10
    GROUP = 11
    TARGET = 12
    MEMBER_TARGET = 13
    MEMBER_CURRENT = 14
    STATE_PARTITIONS = 15


MEMBER_RECORDS: Final = frozenset(
    {
        ShareGroupRecordType.MEMBER,
        ShareGroupRecordType.MEMBER_TARGET,
        ShareGroupRecordType.MEMBER_CURRENT,
    }
)


class ShareGroupMemberMetadata(NamedTuple):
    """A member's client and its subscription."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed: tuple[str, ...]


class ShareGroupCurrentAssignment(NamedTuple):
    """The assignment that a member was sent."""

    epoch: int
    previous_epoch: int
    partitions: Partitions


class StatePartitions(NamedTuple):
    """A topic, and its partitions that have a state."""

    name: str
    partitions: tuple[int, ...]


_RECORD: Final = "a share group's record"

_KEYS: Final = ModernRecordKeys(ShareGroupRecordType, MEMBER_RECORDS, _RECORD)
write_key = _KEYS.write
read_share_group_key = _KEYS.read


# -- values

write_target = write_target_metadata


def write_member(member: ShareGroupMemberMetadata) -> bytes:
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


def write_member_target(partitions: Partitions) -> bytes:
    buffer = bytearray(_INT16.pack(0))
    _write_partitions(buffer, partitions)
    buffer.append(0)
    return bytes(buffer)


def write_current(current: ShareGroupCurrentAssignment) -> bytes:
    buffer = bytearray(_CURRENT.pack(0, current.epoch, current.previous_epoch, _STABLE))
    _write_partitions(buffer, current.partitions)
    buffer.append(0)
    return bytes(buffer)


def write_state_partitions(initialized: Mapping[bytes, StatePartitions]) -> bytes:
    """Initializing and deleting complete within one request, so both lists are empty."""
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


def read_member(value: bytes) -> ShareGroupMemberMetadata:
    with corrupt_if_malformed(_RECORD):
        rack_id, position = read_compact_nullable_string(value, check_version(value))
        client_id, position = read_compact_string(value, position)
        client_host, position = read_compact_string(value, position)
        count, position = read_compact_count(value, position)
        subscribed, _ = read_compact_strings(value, position, count)
    return ShareGroupMemberMetadata(rack_id, client_id, client_host, tuple(subscribed))


def read_group(value: bytes) -> tuple[int, int]:
    """The group's epoch, and the hash of its topics."""
    with corrupt_if_malformed(_RECORD):
        check_version(value)
        _, epoch, metadata_hash = _GROUP.unpack_from(value)
    return epoch, metadata_hash


def read_target(value: bytes) -> tuple[int, int]:
    """The epoch of the assignment, and when it was made; 0 if that is not known."""
    with corrupt_if_malformed(_RECORD):
        return read_target_metadata(value)


def read_member_target(value: bytes) -> Partitions:
    with corrupt_if_malformed(_RECORD):
        return _read_partitions(value, check_version(value))[0]


def read_current(value: bytes) -> ShareGroupCurrentAssignment:
    with corrupt_if_malformed(_RECORD):
        check_version(value)
        _, epoch, previous_epoch, _ = _CURRENT.unpack_from(value)
        return ShareGroupCurrentAssignment(
            epoch, previous_epoch, _read_partitions(value, _CURRENT.size)[0]
        )


def read_state_partitions(value: bytes) -> dict[bytes, StatePartitions]:
    """What is initialized. What Kafka had begun to initialize follows with the next heartbeat."""
    with corrupt_if_malformed(_RECORD):
        _, position = _read_topics(value, check_version(value))
        return _read_topics(value, position)[0]


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
