"""The records of consumer groups in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them.

    3   group                ConsumerGroupMetadata            epoch, hash of what it subscribes to
    4   group                ConsumerGroupPartitionMetadata   before 4.1: only its tombstone matters
    5   group, member        ...MemberMetadata                its client and its subscription
    6   group                ...TargetAssignmentMetadata      epoch and time of the target
    7   group, member        ...TargetAssignmentMember        its target
    8   group, member        ...CurrentMemberAssignment       its assignment and its epochs
    16  group, expression    ...RegularExpression             the topics that it matches

Keys open with their type as int16 and are not flexible; values open with their version, 0, and are.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from ottla.coordinator.consumer.member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
    PartitionSet,
    TopicIdPartition,
)
from ottla.coordinator.result import RecordBytes
from ottla.wire.fields import (
    MalformedError,
    read_compact_bytes,
    read_compact_count,
    read_compact_nullable_count,
    read_compact_nullable_string,
    read_compact_string,
    read_compact_strings,
    read_numbers,
    read_string,
    read_tag,
    read_uvarint,
    skip_tags,
    write_compact_bytes,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
    write_compact_strings,
    write_numbers,
    write_string,
    write_uvarint,
)

METADATA: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET: Final = 6
TARGET_MEMBER: Final = 7
CURRENT: Final = 8
REGEX: Final = 16
KEY_TYPES: Final = (METADATA, PARTITION_METADATA, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX)

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_VERSION: Final = b"\x00\x00"
_TAG: Final = 0  # the one tag that any of these structs has
_LONG_TAG_SIZE: Final = 8


class ConsumerGroupKey(NamedTuple):
    """`name` is a member id, a regular expression, or nothing."""

    type: int
    group_id: str
    name: str = ""


class ConsumerGroupMetadataValue(NamedTuple):
    epoch: int
    hash: int


class TargetAssignmentMetadataValue(NamedTuple):
    epoch: int
    timestamp_ms: int


class ResolvedRegularExpression(NamedTuple):
    """The topics that an expression matches; `version` is that of the image that was looked at."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


# -- keys


def write_key(type_: int, group_id: str, name: str | None = None) -> bytes:
    buffer = bytearray(_INT16.pack(type_))
    write_string(buffer, group_id)
    if name is not None:
        write_string(buffer, name)
    return bytes(buffer)


def read_consumer_group_key(data: bytes) -> ConsumerGroupKey:
    (type_,) = _INT16.unpack_from(data, 0)
    group_id, position = read_string(data, 2)
    name = ""
    if type_ in (MEMBER, TARGET_MEMBER, CURRENT, REGEX):
        name, position = read_string(data, position)
    return ConsumerGroupKey(type_, group_id, name)


# -- writing


def metadata_record(group_id: str, epoch: int, hash_: int) -> RecordBytes:
    value = bytearray(_VERSION + _INT32.pack(epoch))
    _write_long_tag(value, hash_)
    return write_key(METADATA, group_id), bytes(value)


def member_record(group_id: str, member: ConsumerGroupMember) -> RecordBytes:
    value = bytearray(_VERSION)
    write_compact_nullable_string(value, member.instance_id)
    write_compact_nullable_string(value, member.rack_id)
    write_compact_string(value, member.client_id)
    write_compact_string(value, member.client_host)
    write_compact_count(value, len(member.topics))
    write_compact_strings(value, sorted(member.topics))
    write_compact_nullable_string(value, member.regex)
    value += _INT32.pack(member.rebalance_timeout_ms)
    write_compact_nullable_string(value, member.assignor)
    # Null is written out: to Kafka, a missing tag is a classic member without protocols.
    write_uvarint(value, 1)
    write_uvarint(value, _TAG)
    _write_sized(value, b"\x00" if member.classic is None else _classic_struct(member.classic))
    return write_key(MEMBER, group_id, member.member_id), bytes(value)


def _classic_struct(classic: ClassicMemberMetadata) -> bytes:
    value = bytearray(b"\x01" + _INT32.pack(classic.session_timeout_ms))  # 1: it is not null
    write_compact_count(value, len(classic.protocols))
    for name, metadata in classic.protocols:
        write_compact_string(value, name)
        write_compact_bytes(value, metadata)
        value.append(0)
    value.append(0)
    return bytes(value)


def _write_sized(value: bytearray, data: bytes) -> None:
    """The size of a tag is not incremented by one, unlike that of a compact type."""
    write_uvarint(value, len(data))
    value += data


def target_record(group_id: str, epoch: int, timestamp_ms: int) -> RecordBytes:
    value = bytearray(_VERSION + _INT32.pack(epoch))
    _write_long_tag(value, timestamp_ms)
    return write_key(TARGET, group_id), bytes(value)


def target_member_record(group_id: str, member_id: str, target: PartitionSet) -> RecordBytes:
    value = bytearray(_VERSION)
    _write_partitions(value, target, None)
    value.append(0)
    return write_key(TARGET_MEMBER, group_id, member_id), bytes(value)


def current_record(group_id: str, member: ConsumerGroupMember) -> RecordBytes:
    value = bytearray(_VERSION)
    value += _INT32.pack(member.member_epoch)
    value += _INT32.pack(member.previous_epoch)
    value.append(member.state)
    _write_partitions(value, member.assigned, member.assigned)
    _write_partitions(value, member.revoking, member.revoking)
    value.append(0)
    return write_key(CURRENT, group_id, member.member_id), bytes(value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegularExpression) -> RecordBytes:
    value = bytearray(_VERSION)
    write_compact_count(value, len(resolved.topics))
    write_compact_strings(value, sorted(resolved.topics))
    value += _INT64.pack(resolved.version)
    value += _INT64.pack(resolved.timestamp_ms)
    value.append(0)
    return write_key(REGEX, group_id, regex), bytes(value)


def _write_long_tag(value: bytearray, number: int) -> None:
    """An int64 in the one tag; its default, 0, is not written."""
    if number:
        value += bytes((1, _TAG, _LONG_TAG_SIZE)) + _INT64.pack(number)
    else:
        value.append(0)


def _write_partitions(
    value: bytearray, partitions: Iterable[TopicIdPartition], epochs: PartitionEpochs | None
) -> None:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, index in partitions:
        by_topic.setdefault(topic_id, []).append(index)
    write_compact_count(value, len(by_topic))
    for topic_id, indexes in by_topic.items():
        indexes.sort()
        value += topic_id
        write_compact_count(value, len(indexes))
        write_numbers(value, indexes, "i")
        if epochs is None:
            value.append(0)
            continue
        tag = bytearray()
        write_compact_count(tag, len(indexes))
        write_numbers(tag, [epochs[topic_id, index] for index in indexes], "i")
        write_uvarint(value, 1)
        write_uvarint(value, _TAG)
        _write_sized(value, bytes(tag))


# -- reading


def read_metadata(data: bytes) -> ConsumerGroupMetadataValue:
    _check_version(data)
    return ConsumerGroupMetadataValue(*_read_int_and_tag(data))


def read_target(data: bytes) -> TargetAssignmentMetadataValue:
    _check_version(data)
    return TargetAssignmentMetadataValue(*_read_int_and_tag(data))


def _read_int_and_tag(data: bytes) -> tuple[int, int]:
    (number,) = _INT32.unpack_from(data, 2)
    tag = _one_tag(data, 6)[0]
    return number, _INT64.unpack(tag)[0] if tag else 0


def read_member(member_id: str, data: bytes) -> ConsumerGroupMember:
    """The member without its assignment, which is in another record."""
    _check_version(data)
    instance_id, position = read_compact_nullable_string(data, 2)
    rack_id, position = read_compact_nullable_string(data, position)
    client_id, position = read_compact_string(data, position)
    client_host, position = read_compact_string(data, position)
    count, position = read_compact_count(data, position)
    topics, position = read_compact_strings(data, position, count)
    regex, position = read_compact_nullable_string(data, position)
    (rebalance_timeout_ms,) = _INT32.unpack_from(data, position)
    assignor, position = read_compact_nullable_string(data, position + 4)
    tag, _ = _one_tag(data, position)
    return ConsumerGroupMember(
        member_id,
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topics=frozenset(topics),
        regex=regex or "",
        rebalance_timeout_ms=rebalance_timeout_ms,
        assignor=assignor,
        classic=_read_classic(tag) if tag and tag[0] == 1 else None,
    )


def _read_classic(data: bytes) -> ClassicMemberMetadata:
    (session_timeout_ms,) = _INT32.unpack_from(data, 1)
    count, position = read_compact_count(data, 5)
    protocols: list[tuple[str, bytes]] = []
    for _ in range(count):
        name, position = read_compact_string(data, position)
        metadata, position = read_compact_bytes(data, position)
        position = skip_tags(data, position)
        protocols.append((name, bytes(metadata)))
    return ClassicMemberMetadata(session_timeout_ms, tuple(protocols))


def read_target_member(data: bytes) -> PartitionSet:
    _check_version(data)
    return frozenset(_read_partitions(data, 2, 0)[0])


class CurrentAssignmentValue(NamedTuple):
    member_epoch: int
    previous_epoch: int
    state: MemberState
    assigned: PartitionEpochs
    revoking: PartitionEpochs


def read_current(data: bytes) -> CurrentAssignmentValue:
    """Before 4.3 there are no assignment epochs, and the member's epoch stands for them."""
    _check_version(data)
    (member_epoch,) = _INT32.unpack_from(data, 2)
    (previous_epoch,) = _INT32.unpack_from(data, 6)
    state = data[10]
    assigned, position = _read_partitions(data, 11, member_epoch)
    revoking, position = _read_partitions(data, position, member_epoch)
    known = state in MemberState.__members__.values()
    return CurrentAssignmentValue(
        member_epoch,
        previous_epoch,
        MemberState(state) if known else MemberState.UNKNOWN,
        assigned,
        revoking,
    )


def read_regex(data: bytes) -> ResolvedRegularExpression:
    _check_version(data)
    count, position = read_compact_count(data, 2)
    topics, position = read_compact_strings(data, position, count)
    (version,) = _INT64.unpack_from(data, position)
    (timestamp_ms,) = _INT64.unpack_from(data, position + 8)
    return ResolvedRegularExpression(frozenset(topics), version, timestamp_ms)


def _read_partitions(
    data: bytes, position: int, epoch: int
) -> tuple[dict[TopicIdPartition, int], int]:
    partitions: dict[TopicIdPartition, int] = {}
    count, position = read_compact_count(data, position)
    for _ in range(count):
        topic_id = data[position : position + 16]
        number, position = read_compact_count(data, position + 16)
        indexes, position = read_numbers(data, position, number, "i")
        tag, position = _one_tag(data, position)
        epochs = [epoch] * number
        if tag:
            number, start = read_compact_nullable_count(tag, 0)
            if number == len(indexes):
                epochs, _ = read_numbers(tag, start, number, "i")
        for index, since in zip(indexes, epochs, strict=True):
            partitions[topic_id, index] = since
    return partitions, position


def _one_tag(data: bytes, position: int) -> tuple[bytes, int]:
    """What is in tag 0, or nothing; other tags are skipped."""
    count, position = read_uvarint(data, position)
    found = b""
    for _ in range(count):
        tag, start, position = read_tag(data, position)
        if tag == _TAG:
            found = data[start:position]
    return found, position


def _check_version(data: bytes) -> None:
    if data[:2] != _VERSION:
        raise MalformedError(f"a value of version {int.from_bytes(data[:2], 'big', signed=True)}")
