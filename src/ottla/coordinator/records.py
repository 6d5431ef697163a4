"""The records of `__consumer_offsets`, byte for byte as Kafka writes them.

A key opens with its type as int16 (Kafka calls it the key's version):

    0, 1  group string, topic string, partition int32          an offset commit (0 is before 0.8.2)
    2     group string                                         a classic group's metadata
    3...  see consumer/records.py                              consumer groups

A value opens with its version as int16. A null value is a tombstone. Other key types belong to
protocols that this broker does not speak; they are skipped when a partition is loaded, as Kafka
does (KIP-915).

    offset commit    v0  offset int64, metadata string, commit timestamp int64
                     v1  ... and expire timestamp int64
                     v2  as v0
                     v3  offset, leader epoch int32, metadata, commit timestamp
                     v4  as v3, flexible; tag 0 is the topic's id
    group metadata   v0  protocol type string, generation int32, protocol nullable string,
                         leader nullable string, members (member id string, client id string,
                         client host string, session timeout int32, subscription bytes,
                         assignment bytes)
                     v1  a member has its rebalance timeout int32 before the session timeout
                     v2  the time of the last state change int64 before the members
                     v3  a member has its group instance id nullable string after its id
                     v4  as v3, flexible

Kafka 4.1 and later write offset commits as v4 (v1 if a client set a retention time) and group
metadata as v3; so does Ottla.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.coordinator.consumer.records import KEY_TYPES as CONSUMER_KEY_TYPES
from ottla.coordinator.consumer.records import ConsumerGroupKey, read_consumer_group_key
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import READ_ERRORS, ZERO_UUID, MalformedError

OFFSETS_TOPIC: Final = "__consumer_offsets"
CACHED_GROUPS_MAX: Final = 1_000  # groups whose partition is cached
STRING_SIZE_MAX: Final = 0x7FFF  # a string's length is an int16, in flexible versions too

_KEY_OFFSET_OLD: Final = 0
_KEY_OFFSET: Final = 1
_KEY_GROUP: Final = 2
_OFFSET_VALUE: Final = 4
_OFFSET_VALUE_WITH_EXPIRY: Final = 1
_GROUP_VALUE: Final = 3
_VALUE_VERSION_MAX: Final = 4
_FLEXIBLE_FROM: Final = 4
_TOPIC_ID_TAG: Final = 0

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSET_EPOCH: Final = struct.Struct(">qi")


class OffsetCommitKey(NamedTuple):
    """Names one committed offset."""

    group_id: str
    topic: str
    partition: int


class GroupMetadataKey(NamedTuple):
    """Names one classic group."""

    group_id: str


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for one partition, with its metadata."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1  # only if a client before v5 set a retention time
    topic_id: bytes = ZERO_UUID


class MemberMetadata(NamedTuple):
    """One member, as it is stored for the next coordinator of its group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """One generation of a classic group, as it is stored for the next coordinator."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: list[MemberMetadata]


@lru_cache(maxsize=CACHED_GROUPS_MAX)
def partition_for(group_id: str, count: int) -> int:
    """The partition of `__consumer_offsets` that holds a group.

    Java's String.hashCode (over UTF-16 code units), its absolute value, modulo the number of
    partitions; the one int32 without an absolute value counts as 0.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    if code == 0x80000000:
        return 0
    return (code if code < 0x80000000 else 0x1_0000_0000 - code) % count


def is_recordable(text: str) -> bool:
    """True if a string is short enough for a record; flexible requests can carry longer ones."""
    return 4 * len(text) <= STRING_SIZE_MAX or len(text.encode()) <= STRING_SIZE_MAX


def write_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return b"".join(
        (_INT16.pack(_KEY_OFFSET), _string(group_id), _string(topic), _INT32.pack(partition))
    )


def write_group_key(group_id: str) -> bytes:
    return _INT16.pack(_KEY_GROUP) + _string(group_id)


def read_key(data: bytes) -> OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey | None:
    """Which offset or group a record is about; None for types of keys of other protocols."""
    reader = _RecordReader(data)
    kind = reader.int16()
    if kind in (_KEY_OFFSET_OLD, _KEY_OFFSET):
        return OffsetCommitKey(reader.string(), reader.string(), reader.int32())
    if kind == _KEY_GROUP:
        return GroupMetadataKey(reader.string())
    if kind in CONSUMER_KEY_TYPES:
        try:
            return read_consumer_group_key(data)
        except (MalformedError, *READ_ERRORS) as error:
            raise _malformed_record("a key that cannot be read") from error
    return None


def write_offset_value(value: CommittedOffset) -> bytes:
    if value.expire_timestamp_ms >= 0:
        return b"".join(
            (
                _INT16.pack(_OFFSET_VALUE_WITH_EXPIRY),
                _INT64.pack(value.offset),
                _string(value.metadata),
                _INT64.pack(value.commit_timestamp_ms),
                _INT64.pack(value.expire_timestamp_ms),
            )
        )
    metadata = _encoded(value.metadata)
    tags = b"\x00" if value.topic_id == ZERO_UUID else b"\x01\x00\x10" + value.topic_id
    return b"".join(
        (
            _INT16.pack(_OFFSET_VALUE),
            _OFFSET_EPOCH.pack(value.offset, value.leader_epoch),
            _unsigned_varint(len(metadata) + 1),
            metadata,
            _INT64.pack(value.commit_timestamp_ms),
            tags,
        )
    )


def read_offset_value(data: bytes) -> CommittedOffset:
    reader = _RecordReader(data)
    version = reader.version()
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    topic_id = reader.tags().get(_TOPIC_ID_TAG, ZERO_UUID)
    if len(topic_id) != len(ZERO_UUID):
        raise _malformed_record(f"a topic id of {len(topic_id)} bytes")
    return CommittedOffset(
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id
    )


def write_group_value(value: GroupMetadataValue) -> bytes:
    parts = [
        _INT16.pack(_GROUP_VALUE),
        _string(value.protocol_type),
        _INT32.pack(value.generation),
        _nullable_string(value.protocol),
        _nullable_string(value.leader),
        _INT64.pack(value.state_timestamp_ms),
        _INT32.pack(len(value.members)),
    ]
    for member in value.members:
        parts.append(_string(member.member_id))
        parts.append(_nullable_string(member.group_instance_id))
        parts.append(_string(member.client_id))
        parts.append(_string(member.client_host))
        parts.append(_INT32.pack(member.rebalance_timeout_ms))
        parts.append(_INT32.pack(member.session_timeout_ms))
        parts.append(_INT32.pack(len(member.subscription)))
        parts.append(member.subscription)
        parts.append(_INT32.pack(len(member.assignment)))
        parts.append(member.assignment)
    return b"".join(parts)


def read_group_value(data: bytes) -> GroupMetadataValue:
    reader = _RecordReader(data)
    version = reader.version()
    protocol_type = reader.string()
    generation = reader.int32()
    protocol = reader.nullable_string()
    leader = reader.nullable_string()
    state_timestamp_ms = reader.int64() if version >= 2 else -1
    members = [_read_member(reader, version) for _ in range(reader.count())]
    reader.tags()
    return GroupMetadataValue(
        protocol_type, generation, protocol, leader, state_timestamp_ms, members
    )


def _read_member(reader: _RecordReader, version: int) -> MemberMetadata:
    member_id = reader.string()
    group_instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription = reader.sized_bytes()
    assignment = reader.sized_bytes()
    reader.tags()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


class _RecordReader:
    """Reads one key or value from its start; CORRUPT_MESSAGE if it is malformed."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.flexible = False

    def version(self) -> int:
        version = self.int16()
        if not 0 <= version <= _VALUE_VERSION_MAX:
            raise _malformed_record(f"a value of version {version}")
        self.flexible = version >= _FLEXIBLE_FROM
        return version

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise _malformed_record(f"{size} bytes at {self.position} of {len(self.data)}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise _malformed_record("a varint of more than five bytes")

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self.flexible else self.int16()
        if size == -1:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise _malformed_record("a string that is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise _malformed_record("null where a string belongs")
        return text

    def sized_bytes(self) -> bytes:
        return self.take(self.unsigned_varint() - 1 if self.flexible else self.int32())

    def count(self) -> int:
        """An array's length, which cannot exceed the number of bytes that are left."""
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if not 0 <= count <= len(self.data) - self.position:
            raise _malformed_record(f"an array of {count}")
        return count

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that end a flexible struct; other structs have none."""
        if not self.flexible:
            return {}
        tags: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            tags[tag] = self.take(self.unsigned_varint())
        return tags


def _encoded(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > STRING_SIZE_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{text[:32]!r}... has {len(encoded)} bytes, not under 32 KiB",
        )
    return encoded


def _string(text: str) -> bytes:
    encoded = _encoded(text)
    return _INT16.pack(len(encoded)) + encoded


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


def _unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _malformed_record(what: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of {OFFSETS_TOPIC} has {what}")
