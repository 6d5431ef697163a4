"""The records that coordinators keep in their topics, read by their formats and shown as JSON.

Formats are told in the order in which Kafka shows their fields. A key opens with its type, a value
with its version, both int16; keys are written in the old way (strings with an int16 before them),
values in the compact one, with tagged fields behind.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.wire.primitives import (
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
class Many:
    """An array; null is shown as null."""

    of: Kind


@dataclass(slots=True, frozen=True)
class Maybe:
    """A struct behind a signed byte, which is negative where there is none (KIP-893)."""

    of: tuple[Field, ...]


Kind = str | Many | Maybe | tuple["Field", ...]


@dataclass(slots=True, frozen=True)
class Field:
    """With a `tag` it stands behind the others, and is left out while it has its default."""

    name: str
    kind: Kind
    tag: int | None = None


@dataclass(slots=True, frozen=True)
class Format:
    key: tuple[Field, ...]
    values: dict[int, tuple[Field, ...]]  # by version
    flexible_from: int = 0


def fields(text: str) -> tuple[Field, ...]:
    """`epoch:int32 names:[string]`."""
    found = []
    for word in text.split():
        name, _, kind = word.partition(":")
        many = kind.startswith("[")
        found.append(Field(name, Many(kind.strip("[]")) if many else kind))
    return tuple(found)


_GROUP: Final = fields("groupId:string")
_MEMBER: Final = fields("groupId:string memberId:string")
_SHARED: Final = fields("groupId:string topicId:uuid partition:int32")
_PARTITIONS: Final = fields("topicId:uuid partitions:[int32]")
_NAMED_PARTITIONS: Final = fields("topicId:uuid topicName:string partitions:[int32]")
_OWNED: Final = (*_PARTITIONS, Field("assignmentEpochs", Many("int32"), 0))
_EPOCHS: Final = fields("memberEpoch:int32 previousMemberEpoch:int32 state:int8")
_TARGET_TIME: Final = Field("assignmentTimestamp", "int64", 0)
_PROTOCOLS: Final = fields("name:string metadata:bytes")
_CLASSIC: Final = (*fields("sessionTimeoutMs:int32"), Field("supportedProtocols", Many(_PROTOCOLS)))
_RACKS: Final = fields("partition:int32 racks:[string]")
_BATCHES: Final = Field(
    "stateBatches",
    Many(fields("firstOffset:int64 lastOffset:int64 deliveryState:int8 deliveryCount:int16")),
)
_PAIRS: Final = Many(fields("key:string value:string"))
_TASKS: Final = Many(fields("subtopologyId:string partitions:[int32]"))
_OWNED_TASKS: Final = Many(
    (
        *fields("subtopologyId:string partitions:[int32]"),
        Field("assignmentEpochs", Many("int32"), 0),
    )
)
_INTERNAL_TOPICS: Final = Many(
    (
        *fields("name:string partitions:int32 replicationFactor:int16"),
        Field("topicConfigs", _PAIRS),
    )
)
_COPARTITIONED: Final = Many(
    fields("sourceTopics:[int16] sourceTopicRegex:[int16] repartitionSourceTopics:[int16]")
)
_SUBTOPOLOGIES: Final = Many(
    (
        *fields("subtopologyId:string sourceTopics:[string] sourceTopicRegex:[string]"),
        Field("stateChangelogTopics", _INTERNAL_TOPICS),
        *fields("repartitionSinkTopics:[string]"),
        Field("repartitionSourceTopics", _INTERNAL_TOPICS),
        Field("copartitionGroups", _COPARTITIONED),
    )
)
_COMPLETE: Final = Field("deliveryCompleteCount", "int32", 0)

# __consumer_offsets, beside the commits and classic groups that the coordinator's room reads.
GROUPS: Final = {
    3: Format(_GROUP, {0: (*fields("epoch:int32"), Field("metadataHash", "int64", 0))}),
    4: Format(
        _GROUP,
        {
            0: (
                Field(
                    "topics",
                    Many(
                        (
                            *fields("topicId:uuid topicName:string numPartitions:int32"),
                            Field("partitionMetadata", Many(_RACKS)),
                        )
                    ),
                ),
            )
        },
    ),
    5: Format(
        _MEMBER,
        {
            0: (
                *fields("instanceId:string rackId:string clientId:string clientHost:string"),
                *fields("subscribedTopicNames:[string] subscribedTopicRegex:string"),
                *fields("rebalanceTimeoutMs:int32 serverAssignor:string"),
                Field("classicMemberMetadata", _CLASSIC, 0),
            )
        },
    ),
    6: Format(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    7: Format(_MEMBER, {0: (Field("topicPartitions", Many(_PARTITIONS)),)}),
    8: Format(
        _MEMBER,
        {
            0: (
                *_EPOCHS,
                Field("assignedPartitions", Many(_OWNED)),
                Field("partitionsPendingRevocation", Many(_OWNED)),
            )
        },
    ),
    10: Format(
        _MEMBER,
        {
            0: fields(
                "rackId:string clientId:string clientHost:string subscribedTopicNames:[string]"
            )
        },
    ),
    11: Format(_GROUP, {0: fields("epoch:int32 metadataHash:int64")}),
    12: Format(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    13: Format(_MEMBER, {0: (Field("topicPartitions", Many(_PARTITIONS)),)}),
    14: Format(_MEMBER, {0: (*_EPOCHS, Field("assignedPartitions", Many(_PARTITIONS)))}),
    15: Format(
        _GROUP,
        {
            0: (
                Field("initializingTopics", Many(_NAMED_PARTITIONS)),
                Field("initializedTopics", Many(_NAMED_PARTITIONS)),
                Field("deletingTopics", Many(fields("topicId:uuid topicName:string"))),
            )
        },
    ),
    16: Format(
        fields("groupId:string regularExpression:string"),
        {0: fields("topics:[string] version:int64 timestamp:int64")},
    ),
    17: Format(
        _GROUP,
        {
            0: (
                *fields("epoch:int32 metadataHash:int64"),
                Field("validatedTopologyEpoch", "int32", 0),
                Field("lastAssignmentConfigs", _PAIRS, 1),
            )
        },
    ),
    19: Format(
        _MEMBER,
        {
            0: (
                *fields("instanceId:string rackId:string clientId:string clientHost:string"),
                *fields("rebalanceTimeoutMs:int32 topologyEpoch:int32 processId:string"),
                Field("userEndpoint", Maybe(fields("host:string port:uint16"))),
                Field("clientTags", _PAIRS),
            )
        },
    ),
    20: Format(_GROUP, {0: (*fields("assignmentEpoch:int32"), _TARGET_TIME)}),
    21: Format(
        _MEMBER,
        {
            0: (
                Field("activeTasks", _TASKS),
                Field("standbyTasks", _TASKS),
                Field("warmupTasks", _TASKS),
            )
        },
    ),
    22: Format(
        _MEMBER,
        {
            0: (
                *_EPOCHS,
                Field("activeTasks", _OWNED_TASKS),
                Field("standbyTasks", _OWNED_TASKS),
                Field("warmupTasks", _OWNED_TASKS),
                Field("activeTasksPendingRevocation", _OWNED_TASKS),
                Field("standbyTasksPendingRevocation", _OWNED_TASKS),
                Field("warmupTasksPendingRevocation", _OWNED_TASKS),
            )
        },
    ),
    23: Format(_GROUP, {0: (*fields("epoch:int32"), Field("subtopologies", _SUBTOPOLOGIES))}),
}
SHARE_GROUPS: Final = {number: found for number, found in GROUPS.items() if 10 <= number <= 15}

_IN_TRANSACTION: Final = Field(
    "transactionPartitions", Many(fields("topic:string partitionIds:[int32]"))
)
_TRANSACTION_TIMES: Final = fields(
    "transactionLastUpdateTimestampMs:int64 transactionStartTimestampMs:int64"
)
_TRANSACTION: Final = fields(
    "producerEpoch:int16 transactionTimeoutMs:int32 transactionStatus:int8"
)

# __transaction_state
TRANSACTIONS: Final = {
    0: Format(
        fields("transactionalId:string"),
        {
            0: (*fields("producerId:int64"), *_TRANSACTION, _IN_TRANSACTION, *_TRANSACTION_TIMES),
            1: (
                *fields("producerId:int64"),
                Field("previousProducerId", "int64", 0),
                Field("nextProducerId", "int64", 1),
                *_TRANSACTION[:1],
                Field("nextProducerEpoch", "int16", 3),
                *_TRANSACTION[1:],
                _IN_TRANSACTION,
                *_TRANSACTION_TIMES,
                Field("clientTransactionVersion", "int16", 2),
            ),
        },
        flexible_from=1,
    )
}

# __share_group_state
SHARE_STATES: Final = {
    0: Format(
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
    1: Format(
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


def record_json(formats: dict[int, Format], key: bytes | None, value: bytes | None) -> Any:
    """A record as Kafka's formatters show it; None if it is of none of these formats."""
    try:
        (number,) = struct.unpack_from(">h", key or b"")
        known = formats.get(number)
        if known is None:
            return None
        shown, _ = _struct(_Reader(key or b"", flexible=False), known.key, 2)
        return {"key": {"type": number, "data": shown}, "value": _value(known, value)}
    except (*READ_ERRORS, MalformedError):
        return None


def _value(known: Format, data: bytes | None) -> Any:
    if data is None:
        return None
    (version,) = struct.unpack_from(">h", data)
    if version not in known.values:
        return {"version": version, "data": "unknown"}
    reader = _Reader(data, flexible=version >= known.flexible_from)
    shown, _ = _struct(reader, known.values[version], 2)
    return {"version": version, "data": shown}


class _Reader:
    """The two ways in which Kafka writes strings, arrays and structs."""

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


def _struct(reader: _Reader, kinds: Sequence[Field], position: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    for field in kinds:
        if field.tag is None:
            found[field.name], position = _read(reader, field.kind, position)
    if reader.flexible:
        position = _tags(reader, {each.tag: each for each in kinds}, found, position)
    return {each.name: found[each.name] for each in kinds if each.name in found}, position


def _tags(
    reader: _Reader, known: dict[int | None, Field], found: dict[str, Any], position: int
) -> int:
    count, position = read_uvarint(reader.data, position)
    for _ in range(count):
        tag, position = read_uvarint(reader.data, position)
        size, position = read_uvarint(reader.data, position)
        if tag in known:
            found[known[tag].name] = _tagged(reader, known[tag].kind, position)
        position += size
    return position


def _tagged(reader: _Reader, kind: Kind, position: int) -> Any:
    """A struct that may miss has a byte before it that says whether it does."""
    if isinstance(kind, tuple):
        if reader.data[position] == 0:
            return None
        position += 1
    return _read(reader, kind, position)[0]


def _read(reader: _Reader, kind: Kind, position: int) -> tuple[Any, int]:
    if isinstance(kind, Many):
        return _many(reader, kind.of, position)
    if isinstance(kind, Maybe):
        there, position = read_presence(reader.data, position)
        return _struct(reader, kind.of, position) if there else (None, position)
    if isinstance(kind, tuple):
        return _struct(reader, kind, position)
    if kind in _NUMBERS:
        layout = f">{_NUMBERS[kind]}"
        (number,) = struct.unpack_from(layout, reader.data, position)
        return number, position + struct.calcsize(layout)
    return _OTHERS[kind](reader, position)


def _many(reader: _Reader, kind: Kind, position: int) -> tuple[list[Any] | None, int]:
    count, position = reader.count(position)
    if count < 0:
        return None, position
    found = []
    for _ in range(count):
        each, position = _read(reader, kind, position)
        found.append(each)
    return found, position


def _uuid(reader: _Reader, position: int) -> tuple[str, int]:
    data = reader.data[position : position + 16]
    return base64.urlsafe_b64encode(data).decode().rstrip("="), position + 16


def _bytes(reader: _Reader, position: int) -> tuple[str, int]:
    data, position = read_compact_bytes(reader.data, position)
    return base64.b64encode(data).decode(), position


_OTHERS: Final[dict[str, Callable[[_Reader, int], tuple[Any, int]]]] = {
    "string": lambda reader, position: reader.string(position),
    "uuid": _uuid,
    "bytes": _bytes,
}
