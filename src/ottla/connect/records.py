"""The records of tasks: SourceRecord and SinkRecord, values with schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from ottla.connect.schema import Schema

R = TypeVar("R", bound="ConnectRecord")


class Header(NamedTuple):
    """A header of a record; keys may repeat, and the order is kept."""

    key: str
    value: Any
    schema: Schema | None = None


class TimestampType(Enum):
    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@dataclass(slots=True)
class ConnectRecord:
    """What source and sink records share. Treat as immutable: `replace` returns a changed copy."""

    topic: str
    partition: int | None
    key_schema: Schema | None
    key: Any
    value_schema: Schema | None
    value: Any
    timestamp: int | None
    headers: tuple[Header, ...]

    def copied(self: R) -> R:
        """A copy that the caller may change."""
        raise NotImplementedError

    def replace(self: R, **changes: Any) -> R:
        """A copy with these fields changed; this is how transforms change a record."""
        made = self.copied()
        for name, value in changes.items():
            setattr(made, name, value)
        return made


@dataclass(slots=True, init=False)
class SourceRecord(ConnectRecord):
    """From a source task: the source partition and offset, and the record for the topic."""

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]

    def __init__(
        self,
        source_partition: Mapping[str, Any],
        source_offset: Mapping[str, Any],
        topic: str,
        partition: int | None = None,
        key_schema: Schema | None = None,
        key: Any = None,
        value_schema: Schema | None = None,
        value: Any = None,
        timestamp: int | None = None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.partition = partition
        self.key_schema = key_schema
        self.key = key
        self.value_schema = value_schema
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def copied(self) -> SourceRecord:
        return SourceRecord(
            self.source_partition, self.source_offset, self.topic, self.partition,
            self.key_schema, self.key, self.value_schema, self.value, self.timestamp,
            self.headers,
        )  # fmt: skip


@dataclass(slots=True, init=False)
class SinkRecord(ConnectRecord):
    """For a sink task. original_* are the values before any transform (KIP-793)."""

    offset: int
    timestamp_type: TimestampType
    original_topic: str
    original_partition: int | None
    original_offset: int
    raw: Any  # the row it was converted from, for the dead letter queue

    def __init__(
        self,
        topic: str,
        partition: int | None,
        key_schema: Schema | None,
        key: Any,
        value_schema: Schema | None,
        value: Any,
        offset: int,
        timestamp: int | None = None,
        timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE,
        headers: tuple[Header, ...] = (),
        raw: Any = None,
    ) -> None:
        self.topic = self.original_topic = topic
        self.partition = self.original_partition = partition
        self.key_schema = key_schema
        self.key = key
        self.value_schema = value_schema
        self.value = value
        self.offset = self.original_offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.headers = headers
        self.raw = raw

    def copied(self) -> SinkRecord:
        made = SinkRecord(
            self.original_topic, self.original_partition, self.key_schema, self.key,
            self.value_schema, self.value, self.original_offset, self.timestamp,
            self.timestamp_type, self.headers, self.raw,
        )  # fmt: skip
        made.topic = self.topic
        made.partition = self.partition
        return made
