"""The records of a streams group in `__consumer_offsets`, byte for byte as Kafka's.

A key opens with its type as int16, and is the group's id, or that and a member's:

    17  group       epoch int32, hash of the topics' metadata int64; tag 0: validated topology
                    epoch int32, tag 1: the configs of the last assignment (key, value each)
    19  member      instance, rack, client id, client host, rebalance timeout int32, topology
                    epoch int32, process id, endpoint (host, port uint16) or null, tags
    20  target      assignment epoch int32; tag 0: when it was made int64 (KIP-1263)
    21  target of a member        active, standby and warm-up tasks
    22  assignment of a member    epoch int32, previous epoch int32, state int8, tasks of the three
                                  roles, and the tasks to revoke of the three roles
    23  topology    see topology_record.py

Tasks are subtopology id and partitions; in an assignment, tag 0 of active ones has their epochs.
Values open with their version, 0, and are flexible. A null value is a tombstone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.coordinator.modern_records import (
    ModernRecordKeys,
    check_version,
    corrupt_if_malformed,
    read_target_metadata,
    write_target_metadata,
)
from ottla.coordinator.streams.member import StreamsGroupMemberMetadata, StreamsMemberState
from ottla.coordinator.streams.tasks import (
    StreamsTask,
    TaskEpochs,
    TaskRole,
    TaskSet,
    tasks_of,
)
from ottla.wire.fields import (
    MalformedError,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_numbers,
    read_presence,
    read_tag,
    read_uvarint,
    skip_tags,
    write_compact_count,
    write_compact_nullable_string,
    write_compact_string,
    write_numbers,
    write_uvarint,
)

NOT_VALIDATED: Final = -1

_VERSION: Final = b"\x00\x00"
_INT16: Final = struct.Struct(">h")
_UINT16: Final = struct.Struct(">H")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_GROUP: Final = struct.Struct(">hiq")
_TARGET: Final = struct.Struct(">hi")
_CURRENT: Final = struct.Struct(">hiib")
_EPOCHS_TAG: Final = 0


class StreamsGroupRecordType(IntEnum):
    """The types of records."""

    GROUP = 17
    MEMBER = 19
    TARGET = 20
    MEMBER_TARGET = 21
    MEMBER_CURRENT = 22
    TOPOLOGY = 23


MEMBER_RECORDS: Final = frozenset(
    {
        StreamsGroupRecordType.MEMBER,
        StreamsGroupRecordType.MEMBER_TARGET,
        StreamsGroupRecordType.MEMBER_CURRENT,
    }
)


class StreamsGroupMetadataValue(NamedTuple):
    """The record of the group."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: Mapping[str, str] = {}


class StreamsGroupCurrentAssignment(NamedTuple):
    """The assignment of a member, and how far it was reconciled."""

    epoch: int
    previous_epoch: int
    state: StreamsMemberState
    assigned: TaskEpochs
    revoking: TaskEpochs


STREAMS_RECORD: Final = "a streams group's record"

_KEYS: Final = ModernRecordKeys(StreamsGroupRecordType, MEMBER_RECORDS, STREAMS_RECORD)
write_key = _KEYS.write
read_streams_group_key = _KEYS.read


# -- values

write_target = write_target_metadata


def write_group(group: StreamsGroupMetadataValue) -> bytes:
    buffer = bytearray(_GROUP.pack(0, group.epoch, group.metadata_hash))
    tags: list[bytes | None] = [None, None]
    if group.validated_topology_epoch != NOT_VALIDATED:
        tags[0] = _INT32.pack(group.validated_topology_epoch)
    if group.assignment_configs:
        configs = bytearray()
        write_pairs(configs, group.assignment_configs.items())
        tags[1] = bytes(configs)
    _write_tags(buffer, tags)
    return bytes(buffer)


def write_member(metadata: StreamsGroupMemberMetadata) -> bytes:
    buffer = bytearray(_VERSION)
    write_compact_nullable_string(buffer, metadata.instance_id)
    write_compact_nullable_string(buffer, metadata.rack_id)
    write_compact_string(buffer, metadata.client_id)
    write_compact_string(buffer, metadata.client_host)
    buffer += _INT32.pack(metadata.rebalance_timeout_ms)
    buffer += _INT32.pack(metadata.topology_epoch)
    write_compact_string(buffer, metadata.process_id)
    if metadata.user_endpoint is None:
        buffer.append(0xFF)
    else:
        host, port = metadata.user_endpoint
        buffer.append(1)
        write_compact_string(buffer, host)
        buffer += _UINT16.pack(port)
        buffer.append(0)
    write_pairs(buffer, metadata.client_tags)
    buffer.append(0)
    return bytes(buffer)


def write_member_target(tasks: TaskSet) -> bytes:
    buffer = bytearray(_VERSION)
    for role in TaskRole:
        _write_tasks(buffer, role, tasks, None)
    buffer.append(0)
    return bytes(buffer)


def write_current(current: StreamsGroupCurrentAssignment) -> bytes:
    buffer = bytearray(_CURRENT.pack(0, current.epoch, current.previous_epoch, current.state))
    for tasks in (current.assigned, current.revoking):
        for role in TaskRole:
            _write_tasks(buffer, role, tasks, tasks if role is TaskRole.ACTIVE else None)
    buffer.append(0)
    return bytes(buffer)


def read_group(value: bytes) -> StreamsGroupMetadataValue:
    validated, configs = NOT_VALIDATED, {}
    with corrupt_if_malformed(STREAMS_RECORD):
        check_version(value)
        _, epoch, metadata_hash = _GROUP.unpack_from(value)
        count, position = read_uvarint(value, _GROUP.size)
        for _ in range(count):
            tag, position, end = read_tag(value, position)
            if tag == 0:
                (validated,) = _INT32.unpack_from(value, position)
            elif tag == 1:
                configs = dict(read_pairs(value, position)[0])
            position = end
    return StreamsGroupMetadataValue(epoch, metadata_hash, validated, configs)


def read_member(value: bytes) -> StreamsGroupMemberMetadata:
    with corrupt_if_malformed(STREAMS_RECORD):
        instance_id, position = read_compact_nullable_string(value, check_version(value))
        rack_id, position = read_compact_nullable_string(value, position)
        client_id, position = read_compact_string(value, position)
        client_host, position = read_compact_string(value, position)
        (rebalance_timeout_ms,) = _INT32.unpack_from(value, position)
        (topology_epoch,) = _INT32.unpack_from(value, position + 4)
        process_id, position = read_compact_string(value, position + 8)
        endpoint, position = _read_endpoint(value, position)
        client_tags, _ = read_pairs(value, position)
    return StreamsGroupMemberMetadata(
        instance_id, rack_id, client_id, client_host, rebalance_timeout_ms, topology_epoch,
        process_id, endpoint, client_tags,
    )  # fmt: skip


def read_target(value: bytes) -> tuple[int, int]:
    """The epoch of the assignment, and when it was made; 0 if that is not known."""
    with corrupt_if_malformed(STREAMS_RECORD):
        return read_target_metadata(value)


def read_member_target(value: bytes) -> TaskSet:
    tasks: dict[StreamsTask, int] = {}
    with corrupt_if_malformed(STREAMS_RECORD):
        position = check_version(value)
        for role in TaskRole:
            position = _read_tasks(value, position, role, tasks, 0)
    return frozenset(tasks)


def read_current(value: bytes) -> StreamsGroupCurrentAssignment:
    """An active task without an epoch, as Kafka 4.1 stored it, has the member's epoch."""
    assigned: dict[StreamsTask, int] = {}
    revoking: dict[StreamsTask, int] = {}
    with corrupt_if_malformed(STREAMS_RECORD):
        check_version(value)
        _, epoch, previous_epoch, state = _CURRENT.unpack_from(value)
        position = _CURRENT.size
        for tasks in (assigned, revoking):
            for role in TaskRole:
                position = _read_tasks(value, position, role, tasks, epoch)
        known = state in set(StreamsMemberState)
    found = StreamsMemberState(state) if known else StreamsMemberState.UNKNOWN
    return StreamsGroupCurrentAssignment(epoch, previous_epoch, found, assigned, revoking)


# -- parts


def write_pairs(buffer: bytearray, pairs: Iterable[tuple[str, str]]) -> None:
    listed = list(pairs)
    write_compact_count(buffer, len(listed))
    for key, value in listed:
        write_compact_string(buffer, key)
        write_compact_string(buffer, value)
        buffer.append(0)


def read_pairs(value: bytes, position: int) -> tuple[tuple[tuple[str, str], ...], int]:
    pairs = []
    count, position = read_compact_count(value, position)
    for _ in range(count):
        key, position = read_compact_string(value, position)
        text, position = read_compact_string(value, position)
        position = skip_tags(value, position)
        pairs.append((key, text))
    return tuple(pairs), position


def _read_endpoint(value: bytes, position: int) -> tuple[tuple[str, int] | None, int]:
    present, position = read_presence(value, position)
    if not present:
        return None, position
    host, position = read_compact_string(value, position)
    (port,) = _UINT16.unpack_from(value, position)
    return (host, port), skip_tags(value, position + _UINT16.size)


def _write_tasks(
    buffer: bytearray, role: TaskRole, tasks: Iterable[StreamsTask], epochs: TaskEpochs | None
) -> None:
    by_subtopology = tasks_of(role, tasks)
    write_compact_count(buffer, len(by_subtopology))
    for subtopology_id, partitions in by_subtopology.items():
        write_compact_string(buffer, subtopology_id)
        write_compact_count(buffer, len(partitions))
        write_numbers(buffer, partitions, "i")
        if epochs is None:
            buffer.append(0)
            continue
        listed = bytearray()
        write_compact_count(listed, len(partitions))
        of_each = [epochs[StreamsTask(role, subtopology_id, index)] for index in partitions]
        write_numbers(listed, of_each, "i")
        _write_tags(buffer, [bytes(listed)])


def _read_tasks(
    value: bytes, position: int, role: TaskRole, tasks: dict[StreamsTask, int], epoch: int
) -> int:
    """Adds to `tasks`; those that are stored without an epoch get `epoch`."""
    count, position = read_compact_count(value, position)
    for _ in range(count):
        subtopology_id, position = read_compact_string(value, position)
        size, position = read_compact_count(value, position)
        partitions, position = read_numbers(value, position, size, "i")
        epochs = [epoch] * size
        tag_count, position = read_uvarint(value, position)
        for _ in range(tag_count):
            tag, position, end = read_tag(value, position)
            if tag == _EPOCHS_TAG and value[position]:
                found, position = read_compact_count(value, position)
                epochs, _ = read_numbers(value, position, found, "i")
            position = end
        if len(epochs) != size:
            raise MalformedError("tasks and epochs that do not match")
        for index, of_task in zip(partitions, epochs, strict=True):
            tasks[StreamsTask(role, subtopology_id, index)] = of_task
    return position


def _write_tags(buffer: bytearray, tags: list[bytes | None]) -> None:
    """Tags by number; None is a default, which is left out."""
    present = [(tag, value) for tag, value in enumerate(tags) if value is not None]
    write_uvarint(buffer, len(present))
    for tag, value in present:
        write_uvarint(buffer, tag)
        write_uvarint(buffer, len(value))
        buffer += value
