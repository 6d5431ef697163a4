"""The record formats of coordinators' topics, decoded and printed as JSON.

Fields are listed in the order in which Kafka prints them. Keys begin with their type, values with
their version, both int16; keys have the old encoding (strings with an int16 length), values the
compact one, with tagged fields at the end.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.wire.fields import (
    READ_ERRORS,
    MalformedError,
    read_compact_bytes,
    read_compact_nullable_count,
    read_compact_nullable_string,
    read_count,
    read_presence,
    read_string,
    read_uvarint,
)

_NUMBERS: Final = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}


@dataclass(slots=True, frozen=True)
class RepeatedField:
    """An array; null is printed as null."""

    of: FieldType


@dataclass(slots=True, frozen=True)
class NullableStruct:
    """A struct after a signed byte, which is negative for null (KIP-893)."""

    of: tuple[FormatField, ...]


FieldType = str | RepeatedField | NullableStruct | tuple["FormatField", ...]


@dataclass(slots=True, frozen=True)
class FormatField:
    """A field with a `tag` comes after the others, and is omitted while it has its default."""

    name: str
    kind: FieldType
    tag: int | None = None


@dataclass(slots=True, frozen=True)
class RecordFormat:
    key: tuple[FormatField, ...]
    values: dict[int, tuple[FormatField, ...]]  # by version
    flexible_from: int = 0


def fields(text: str) -> tuple[FormatField, ...]:
    """`epoch:int32 names:[string]`."""
    found = []
    for word in text.split():
        name, _, kind = word.partition(":")
        many = kind.startswith("[")
        found.append(FormatField(name, RepeatedField(kind.strip("[]")) if many else kind))
    return tuple(found)


_GROUP: Final = fields("groupId:string")
_MEMBER: Final = fields("groupId:string memberId:string")
_SHARED: Final = fields("groupId:string topicId:uuid partition:int32")
_PARTITIONS: Final = fields("topicId:uuid partitions:[int32]")
_NAMED_PARTITIONS: Final = fields("topicId:uuid topicName:string partitions:[int32]")
_OWNED: Final = (*_PARTITIONS, FormatField("assignmentEpochs", RepeatedField("int32"), 0))
_EPOCHS: Final = fields("memberEpoch:int32 previousMemberEpoch:int32 state:int8")
_TARGET_TIME: Final = FormatField("assignmentTimestamp", "int64", 0)
_PROTOCOLS: Final = fields("name:string metadata:bytes")
_CLASSIC: Final = (
    *fields("sessionTimeoutMs:int32"),
    FormatField("supportedProtocols", RepeatedField(_PROTOCOLS)),
)
_RACKS: Final = fields("partition:int32 racks:[string]")
_BATCHES: Final = FormatField(
    "stateBatches",
    RepeatedField(
        fields("firstOffset:int64 lastOffset:int64 deliveryState:int8 deliveryCount:int16")
    ),
)
_PAIRS: Final = RepeatedField(fields("key:string value:string"))
_TASKS: Final = RepeatedField(fields("subtopologyId:string partitions:[int32]"))
_OWNED_TASKS: Final = RepeatedField(
    (
        *fields("subtopologyId:string partitions:[int32]"),
        FormatField("assignmentEpochs", RepeatedField("int32"), 0),
    )
)
_INTERNAL_TOPICS: Final = RepeatedField(
    (
        *fields("name:string partitions:int32 replicationFactor:int16"),
        FormatField("topicConfigs", _PAIRS),
    )
)
_COPARTITIONED: Final = RepeatedField(
    fields("sourceTopics:[int16] sourceTopicRegex:[int16] repartitionSourceTopics:[int16]")
)
_SUBTOPOLOGIES: Final = RepeatedField(
    (
        *fields("subtopologyId:string sourceTopics:[string] sourceTopicRegex:[string]"),
        FormatField("stateChangelogTopics", _INTERNAL_TOPICS),
        *fields("repartitionSinkTopics:[string]"),
        FormatField("repartitionSourceTopics", _INTERNAL_TOPICS),
        FormatField("copartitionGroups", _COPARTITIONED),
    )
)
_COMPLETE: Final = FormatField("deliveryCompleteCount", "int32", 0)

# __consumer_offsets, except for commits and classic groups, which ottla.coordinator decodes.
GROUPS: Final = {
    3: RecordFormat(_GROUP, {0: (*fields("epoch:int32"), FormatField("metadataHash", "int64", 0))}),
    4: RecordFormat(
        _GROUP,
        {
            0: (
                FormatField(
                    "topics",
                    RepeatedField(
                        (
                            *fields("topicId:uuid topicName:string numPartitions:int32"),
                            FormatField("partitionMetadata", RepeatedField(_RACKS)),
                        )
                    ),
                ),
            )
        },
    ),
    5: RecordFormat(
        _MEMBER,
        {
            0: (
                *fields("instanceId:string rackId:string clientId:string clientHost:string"),
                *fields("subscribedTopicNames:[string] subscribedTopicRegex:string"),
                *fields("rebalanceTimeoutMs:int32 serverAssignor:string"),
                FormatField("classicMemberMetadata", _CLASSIC, 0),
            )
        },
    ),
    6: RecordFormat(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    7: RecordFormat(_MEMBER, {0: (FormatField("topicPartitions", RepeatedField(_PARTITIONS)),)}),
    8: RecordFormat(
        _MEMBER,
        {
            0: (
                *_EPOCHS,
                FormatField("assignedPartitions", RepeatedField(_OWNED)),
                FormatField("partitionsPendingRevocation", RepeatedField(_OWNED)),
            )
        },
    ),
    10: RecordFormat(
        _MEMBER,
        {
            0: fields(
                "rackId:string clientId:string clientHost:string subscribedTopicNames:[string]"
            )
        },
    ),
    11: RecordFormat(_GROUP, {0: fields("epoch:int32 metadataHash:int64")}),
    12: RecordFormat(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    13: RecordFormat(_MEMBER, {0: (FormatField("topicPartitions", RepeatedField(_PARTITIONS)),)}),
    14: RecordFormat(
        _MEMBER, {0: (*_EPOCHS, FormatField("assignedPartitions", RepeatedField(_PARTITIONS)))}
    ),
    15: RecordFormat(
        _GROUP,
        {
            0: (
                FormatField("initializingTopics", RepeatedField(_NAMED_PARTITIONS)),
                FormatField("initializedTopics", RepeatedField(_NAMED_PARTITIONS)),
                FormatField(
                    "deletingTopics", RepeatedField(fields("topicId:uuid topicName:string"))
                ),
            )
        },
    ),
    16: RecordFormat(
        fields("groupId:string regularExpression:string"),
        {0: fields("topics:[string] version:int64 timestamp:int64")},
    ),
    17: RecordFormat(
        _GROUP,
        {
            0: (
                *fields("epoch:int32 metadataHash:int64"),
                FormatField("validatedTopologyEpoch", "int32", 0),
                FormatField("lastAssignmentConfigs", _PAIRS, 1),
            )
        },
    ),
    19: RecordFormat(
        _MEMBER,
        {
            0: (
                *fields("instanceId:string rackId:string clientId:string clientHost:string"),
                *fields("rebalanceTimeoutMs:int32 topologyEpoch:int32 processId:string"),
                FormatField("userEndpoint", NullableStruct(fields("host:string port:uint16"))),
                FormatField("clientTags", _PAIRS),
            )
        },
    ),
    20: RecordFormat(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    21: RecordFormat(
        _MEMBER,
        {
            0: (
                FormatField("activeTasks", _TASKS),
                FormatField("standbyTasks", _TASKS),
                FormatField("warmupTasks", _TASKS),
            )
        },
    ),
    22: RecordFormat(
        _MEMBER,
        {
            0: (
                *_EPOCHS,
                FormatField("activeTasks", _OWNED_TASKS),
                FormatField("standbyTasks", _OWNED_TASKS),
                FormatField("warmupTasks", _OWNED_TASKS),
                FormatField("activeTasksPendingRevocation", _OWNED_TASKS),
                FormatField("standbyTasksPendingRevocation", _OWNED_TASKS),
                FormatField("warmupTasksPendingRevocation", _OWNED_TASKS),
            )
        },
    ),
    23: RecordFormat(
        _GROUP, {0: (*fields("epoch:int32"), FormatField("subtopologies", _SUBTOPOLOGIES))}
    ),
}
SHARE_GROUPS: Final = {number: found for number, found in GROUPS.items() if 10 <= number <= 15}

_IN_TRANSACTION: Final = FormatField(
    "transactionPartitions", RepeatedField(fields("topic:string partitionIds:[int32]"))
)
_TRANSACTION_TIMES: Final = fields(
    "transactionLastUpdateTimestampMs:int64 transactionStartTimestampMs:int64"
)
_TRANSACTION: Final = fields(
    "producerEpoch:int16 transactionTimeoutMs:int32 transactionStatus:int8"
)

# __transaction_state
TRANSACTIONS: Final = {
    0: RecordFormat(
        fields("transactionalId:string"),
        {
            0: (*fields("producerId:int64"), *_TRANSACTION, _IN_TRANSACTION, *_TRANSACTION_TIMES),
            1: (
                *fields("producerId:int64"),
                FormatField("previousProducerId", "int64", 0),
                FormatField("nextProducerId", "int64", 1),
                *_TRANSACTION[:1],
                FormatField("nextProducerEpoch", "int16", 3),
                *_TRANSACTION[1:],
                _IN_TRANSACTION,
                *_TRANSACTION_TIMES,
                FormatField("clientTransactionVersion", "int16", 2),
            ),
        },
        flexible_from=1,
    )
}

# __share_group_state
SHARE_STATES: Final = {
    0: RecordFormat(
        _SHARED,
        {
            0: (
                *fields("snapshotEpoch:int32 stateEpoch:int32 leaderEpoch:int32 startOffset:int64"),
                _COMPLETE,
                *fields("createTimestamp:int64 writeTimestamp:int64"),
                _BATCHES,
            )
        },
    ),
    1: RecordFormat(
        _SHARED,
        {
            0: (
                *fields("snapshotEpoch:int32 leaderEpoch:int32 startOffset:int64"),
                _COMPLETE,
                _BATCHES,
            )
        },
    ),
}


def record_json(formats: dict[int, RecordFormat], key: bytes | None, value: bytes | None) -> Any:
    """A record as Kafka's formatters print it; None if it has none of these formats."""
    try:
        (number,) = struct.unpack_from(">h", key or b"")
        known = formats.get(number)
        if known is None:
            return None
        shown, _ = _struct(_FieldReader(key or b"", flexible=False), known.key, 2)
        return {"key": {"type": number, "data": shown}, "value": _value(known, value)}
    except (*READ_ERRORS, MalformedError):
        return None


def _value(record_format: RecordFormat, data: bytes | None) -> Any:
    if data is None:
        return None
    (version,) = struct.unpack_from(">h", data)
    if version not in record_format.values:
        return {"version": version, "data": "unknown"}
    reader = _FieldReader(data, flexible=version >= record_format.flexible_from)
    shown, _ = _struct(reader, record_format.values[version], 2)
    return {"version": version, "data": shown}


class _FieldReader:
    """Kafka's two encodings of strings, arrays and structs."""

    def __init__(self, data: bytes, *, flexible: bool) -> None:
        self.data = data
        self.flexible = flexible

    def string(self, position: int) -> tuple[str | None, int]:
        if self.flexible:
            return read_compact_nullable_string(self.data, position)
        return read_string(self.data, position)

    def count(self, position: int) -> tuple[int, int]:
        read = read_compact_nullable_count if self.flexible else read_count
        return read(self.data, position)


def _struct(
    reader: _FieldReader, kinds: Sequence[FormatField], position: int
) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for field in kinds:
        if field.tag is None:
            found[field.name], position = _read(reader, field.kind, position)
    if reader.flexible:
        position = _tags(reader, {field.tag: field for field in kinds}, found, position)
    return {field.name: found[field.name] for field in kinds if field.name in found}, position


def _tags(
    reader: _FieldReader, known: dict[int | None, FormatField], found: dict[str, Any], position: int
) -> int:
    count, position = read_uvarint(reader.data, position)
    for _ in range(count):
        tag, position = read_uvarint(reader.data, position)
        size, position = read_uvarint(reader.data, position)
        if tag in known:
            found[known[tag].name] = _tagged(reader, known[tag].kind, position)
        position += size
    return position


def _tagged(reader: _FieldReader, kind: FieldType, position: int) -> Any:
    """A nullable struct has a byte in front that says whether it is null."""
    if isinstance(kind, tuple):
        if reader.data[position] == 0:
            return None
        position += 1
    return _read(reader, kind, position)[0]


def _read(reader: _FieldReader, kind: FieldType, position: int) -> tuple[Any, int]:
    if isinstance(kind, RepeatedField):
        return _many(reader, kind.of, position)
    if isinstance(kind, NullableStruct):
        there, position = read_presence(reader.data, position)
        return _struct(reader, kind.of, position) if there else (None, position)
    if isinstance(kind, tuple):
        return _struct(reader, kind, position)
    if kind in _NUMBERS:
        layout = f">{_NUMBERS[kind]}"
        (number,) = struct.unpack_from(layout, reader.data, position)
        return number, position + struct.calcsize(layout)
    return _OTHERS[kind](reader, position)


def _many(reader: _FieldReader, kind: FieldType, position: int) -> tuple[list[Any] | None, int]:
    count, position = reader.count(position)
    if count < 0:
        return None, position
    found = []
    for _ in range(count):
        item, position = _read(reader, kind, position)
        found.append(item)
    return found, position


def _uuid(reader: _FieldReader, position: int) -> tuple[str, int]:
    data = reader.data[position : position + 16]
    return base64.urlsafe_b64encode(data).decode().rstrip("="), position + 16


def _bytes(reader: _FieldReader, position: int) -> tuple[str, int]:
    data, position = read_compact_bytes(reader.data, position)
    return base64.b64encode(data).decode(), position


_OTHERS: Final[dict[str, Callable[[_FieldReader, int], tuple[Any, int]]]] = {
    "string": lambda reader, position: reader.string(position),
    "uuid": _uuid,
    "bytes": _bytes,
}
