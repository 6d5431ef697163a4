"""The formats PROTOBUF and PROTOBUF_NOSR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from ottla.client.schema_registry import RegisteredSchema
from ottla.rows.formats.arrow import arrow_array, python_values
from ottla.rows.formats.codec import Problems
from ottla.rows.formats.protobuf.types import DEFAULT_NAME, proto_schema
from ottla.rows.formats.protobuf.values import (
    ValueReader,
    ValueWriter,
    value_readers,
    value_writers,
)
from ottla.rows.formats.registry_format import RegistryFormat
from ottla.rows.schema import Column, FormatInfo
from ottla.rows.schema_properties import FULL_NAME, NULLABLE
from ottla.rows.types import SqlField
from ottla.schemas import framing
from ottla.schemas.protobuf.message_types import MessageTypes, message_indexes
from ottla.schemas.schema_types import parse


class ProtobufFormat(RegistryFormat):
    kind = "PROTOBUF"

    _writer: MessageWriter | None = None
    _prefix = b""

    def plan_of(self, schema: RegisteredSchema) -> MessagePlan:
        types = MessageTypes(self.registry.parsed(schema))
        return MessagePlan(types, self.fields, framed=True)

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if self._writer is None:
            self._writer = self.written_by(self.schema_text(), self._new_writer)
        return self._writer.write(columns, count, self._prefix)

    def schema_text(self) -> str:
        return schema_text(self.format, self.fields)

    def _new_writer(self, schema: RegisteredSchema) -> MessageWriter:
        parsed = self.registry.parsed(schema)
        name = full_name(self.format)
        indexes = message_indexes(parsed.body.file, name) if name else (0,)
        self._prefix = framing.with_id(schema.id, framing.indexes_bytes(indexes))
        return MessageWriter(MessageTypes(parsed).by_indexes(indexes), self.fields)


def full_name(format_: FormatInfo) -> str:
    """The configured name of the message; the default is Connect's."""
    name = format_.properties.get(FULL_NAME, "").strip()
    return "" if name.startswith(DEFAULT_NAME) else name


def schema_text(format_: FormatInfo, fields: Sequence[SqlField]) -> str:
    nullable = format_.properties.get(NULLABLE, "")
    return proto_schema(fields, name=full_name(format_), nullable=nullable)


class ProtobufNoSrFormat:
    """Bare messages: the columns are the fields, numbered in column order."""

    def __init__(self, format_: FormatInfo, columns: Sequence[Column]) -> None:
        self._fields = tuple(SqlField(column.name, column.type) for column in columns)
        types = MessageTypes(parse("PROTOBUF", schema_text(format_, self._fields), {}))
        self._plan = MessagePlan(types, self._fields, framed=False)
        self._writer = MessageWriter(types.by_indexes((0,)), self._fields)

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        return self._plan.read_payloads(data.to_pylist())

    def read_row(self, data: bytes) -> list[Any]:
        arrays, problems = self._plan.read_payloads([data])
        if problems:
            raise ValueError(problems[0])
        pairs = zip(arrays, self._fields, strict=True)
        return [python_values(array, field.type)[0] for array, field in pairs]

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        return self._writer.write(columns, count, b"")

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        return self._writer.write_row(values)


class MessagePlan:
    """Payloads of one schema -> columns; `framed` ones begin with their message's indexes."""

    def __init__(self, types: MessageTypes, fields: Sequence[SqlField], *, framed: bool) -> None:
        self._types = types
        self._fields = tuple(fields)
        self._framed = framed
        self._messages: dict[tuple[int, ...], tuple[Any, list[ValueReader]] | ValueError] = {}

    def read(self, data: bytes, places: bytes, count: int) -> tuple[list[pa.Array], Problems]:
        bounds = np.frombuffer(places, np.int32).tolist()
        return self.read_payloads(
            [data[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
        )

    def read_payloads(self, payloads: list[bytes]) -> tuple[list[pa.Array], Problems]:
        problems: Problems = {}
        columns: list[list[Any]] = [[] for _ in self._fields]
        nothing = [None] * len(self._fields)
        for row, payload in enumerate(payloads):
            try:
                values: Sequence[Any] = self._row(payload)
            except (ValueError, DecodeError) as error:
                problems[row] = str(error)
                values = nothing
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        pairs = zip(columns, self._fields, strict=True)
        return [arrow_array(column, field.type) for column, field in pairs], problems

    def _row(self, payload: bytes) -> list[Any]:
        indexes: tuple[int, ...] = (0,)
        position = 0
        if self._framed:
            indexes, position = framing.read_indexes(payload, 0)
        message_class, takes = self._message(indexes)
        message = message_class.FromString(payload[position:])
        return [take(message) for take in takes]

    def _message(self, indexes: tuple[int, ...]) -> tuple[Any, list[ValueReader]]:
        found = self._messages.get(indexes)
        if found is None:
            try:
                message_class = self._types.by_indexes(indexes)
                found = message_class, value_readers(message_class.DESCRIPTOR, self._fields)
            except ValueError as error:  # raised for every record of this message
                found = error
            self._messages[indexes] = found
        if isinstance(found, ValueError):
            raise found
        return found


class MessageWriter:
    """Columns -> payloads of one message."""

    def __init__(self, message_class: Any, fields: Sequence[SqlField]) -> None:
        self._class = message_class
        self._fields = tuple(fields)
        self._puts: list[ValueWriter] = value_writers(message_class.DESCRIPTOR, fields)

    def write(self, columns: Sequence[pa.Array], count: int, prefix: bytes) -> pa.Array:
        values = [
            python_values(column, field.type)
            for column, field in zip(columns, self._fields, strict=True)
        ]
        rows = zip(*values, strict=True) if values else [()] * count
        return pa.array([prefix + self.write_row(row) for row in rows], pa.binary())

    def write_row(self, values: Sequence[Any]) -> bytes:
        message = self._class()
        for put, value in zip(self._puts, values, strict=True):
            if value is not None:
                put(message, value)
        # Deterministic, because a key's bytes determine its partition.
        found: bytes = message.SerializeToString(deterministic=True)
        return found
