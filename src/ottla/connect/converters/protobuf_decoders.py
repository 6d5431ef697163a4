"""Protobuf messages -> Connect values; compiled once per pair of schemas."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.converters.connect_from_protobuf import NAMES, in_oneof, oneof_field, real_oneofs
from ottla.connect.converters.protobuf_settings import ProtobufSettings
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from ottla.connect.logical_types import from_millis
from ottla.connect.schema import LOGICAL_TYPES
from ottla.rows.java.text import float32

Convert = Callable[[Any], Any]
NANOS: Final = 1_000_000  # in a millisecond


class ProtobufDecoders:
    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings

    def root(self, schema: Schema, descriptor: Any) -> Convert:
        if schema.type is Type.STRUCT:
            return self._struct(schema, descriptor)
        single = self._single(schema, descriptor.fields_by_name["value"]) or _same
        return lambda message: single(message.value)

    def _struct(self, schema: Schema, descriptor: Any) -> Convert:
        plan: list[tuple[int, str, bool, Convert | None]] = []
        unions: list[tuple[int, str, Schema, dict[str, tuple[int, Convert | None]]]] = []
        flat = self._settings.flatten_unions
        for index, oneof in enumerate(real_oneofs(descriptor)):
            if flat:
                continue
            union = schema.field(oneof_field(oneof, index, self._settings))
            assert union is not None, "the schema was made of this descriptor"
            members = {}
            for member in oneof.fields:
                at = union.schema.field(member.name)
                assert at is not None, "the schema was made of this descriptor"
                members[member.name] = (at.index, self._field(at.schema, member))
            unions.append((union.index, oneof.name, union.schema, members))
        for field in descriptor.fields:
            if in_oneof(field) and not flat:
                continue
            found = schema.field(field.name)
            assert found is not None, "the schema was made of this descriptor"
            decode = self._field(found.schema, field)
            plan.append((found.index, field.name, field.has_presence, decode))
        count = len(schema.fields)

        def struct(message: Any) -> Any:
            values: list[Any] = [None] * count
            for index, name, has_presence, decode in plan:
                if not has_presence or message.HasField(name):
                    value = getattr(message, name)
                    values[index] = value if decode is None else decode(value)
            for index, oneof, inner, members in unions:
                chosen = message.WhichOneof(oneof)
                if chosen is not None:
                    at, decode = members[chosen]
                    union = [None] * len(members)
                    value = getattr(message, chosen)
                    union[at] = value if decode is None else decode(value)
                    values[index] = Struct.of(inner, union)
            return Struct.of(schema, values)

        return struct

    def _field(self, schema: Schema, field: Any) -> Convert | None:
        if schema.type is Type.MAP:
            entry = field.message_type.fields_by_name
            keys = self._field(schema.key_schema, entry["key"]) or _same
            values = self._field(schema.value_schema, entry["value"]) or _same
            if field.message_type.GetOptions().map_entry:
                return lambda found: {keys(key): values(found[key]) for key in found}
            return lambda found: {keys(e.key): values(e.value) for e in found}
        if field.is_repeated:
            convert_item = self._single(schema.value_schema, field)
            return (
                list
                if convert_item is None
                else lambda found: [convert_item(item) for item in found]
            )
        return self._single(schema, field)

    def _single(self, schema: Schema, field: Any) -> Convert | None:
        if schema.name in LOGICAL_TYPES:
            return _LOGICAL_IN[schema.name or ""]
        if field.enum_type is not None:
            if schema.type is Type.INT32:
                return None
            names = {
                number: symbol.name for number, symbol in field.enum_type.values_by_number.items()
            }
            return lambda number: names.get(number, str(number))
        if field.message_type is not None:
            if schema.type is Type.STRUCT:
                return self._struct(schema, field.message_type)
            inner = self._single(schema, field.message_type.fields_by_name["value"]) or _same
            return lambda message: inner(message.value)
        if NAMES[field.type] in ("uint64", "fixed64"):
            # Java has no unsigned numbers: the largest ones become negative.
            return lambda number: number - (1 << 64) if number >= 1 << 63 else number
        return float32 if schema.type is Type.FLOAT32 else None


def _same(value: Any) -> Any:
    return value


def _decimal_in(message: Any) -> Decimal:
    unscaled = int.from_bytes(message.value, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -message.scale))


def _date_in(message: Any) -> datetime.date:
    return datetime.date(message.year, message.month, message.day)


def _time_in(message: Any) -> datetime.time:
    micros = message.nanos // 1000
    return datetime.time(message.hours, message.minutes, message.seconds, micros)


_LOGICAL_IN: Final[dict[str, Convert]] = {
    DECIMAL: _decimal_in,
    DATE: _date_in,
    TIME: _time_in,
    TIMESTAMP: lambda message: from_millis(message.seconds * 1000 + message.nanos // NANOS),
}
