"""Connect values -> Protobuf messages; compiled once per pair of schemas."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.converters.connect_from_protobuf import NAMES, is_map
from ottla.connect.converters.protobuf_settings import (
    WRAPPED,
    ProtobufSettings,
    enum_parameter,
    is_union,
    union_name,
)
from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.logical_types import decimal_to_bytes, to_millis
from ottla.connect.schema import INTEGER_BITS, LOGICAL_TYPES, PYTHON_TYPES

Convert = Callable[[Any], Any]
NANOS: Final = 1_000_000  # in a millisecond
UNSIGNED: Final = {"uint32": 1 << 32, "fixed32": 1 << 32, "uint64": 1 << 64, "fixed64": 1 << 64}


class ProtobufEncoders:
    """Produces the dicts that message classes accept: fields by name, messages as dicts."""

    def __init__(self, settings: ProtobufSettings) -> None:
        self._settings = settings

    def root(self, schema: Schema, message_class: Any) -> Convert:
        descriptor = message_class.DESCRIPTOR
        if schema.type is Type.STRUCT:
            encode = self._struct(schema, descriptor)
        elif descriptor.full_name in WRAPPED:
            single = self._single(schema, descriptor.fields_by_name["value"])

            def encode(value: Any) -> Any:
                return {"value": single(value)}
        else:
            raise DataException(f"{schema!r} can't be written as {descriptor.full_name}")
        return lambda value: message_class(**encode(value)).SerializeToString()

    def _struct(self, schema: Schema, descriptor: Any) -> Convert:
        plan: list[tuple[int, Any, list[tuple[int, str, Convert]] | Convert, str]] = []
        for field in schema.fields:
            default = None if self._settings.ignore_defaults else field.schema.default
            if is_union(field.schema):
                choices = [
                    (member.index, *self._named(member.name, member.schema, descriptor))
                    for member in field.schema.fields
                ]
                plan.append((field.index, default, choices, union_name(field.schema)))
            else:
                name, encode = self._named(field.name, field.schema, descriptor)
                plan.append((field.index, default, encode, name))

        def struct(value: Any) -> dict[str, Any]:
            values = _values(schema, value)
            made = {}
            for index, default, encode, name in plan:
                found = default if values[index] is None else values[index]
                if found is None:
                    continue
                if callable(encode):
                    made[name] = encode(found)
                    continue
                for member, member_name, encode_member in encode:
                    if found._values[member] is not None:
                        made[member_name] = encode_member(found._values[member])
                        break
            return made

        return struct

    def _named(self, name: str, schema: Schema, descriptor: Any) -> tuple[str, Convert]:
        scrubbed = self._settings.scrubbed(name)
        field = descriptor.fields_by_name.get(scrubbed)
        if field is None:
            raise DataException(f"Cannot find field with name {scrubbed}")
        encode = self._field(schema, field)

        def named(value: Any) -> Any:
            try:
                return encode(value)
            except DataException as error:
                raise DataException(f"{name}: {error}") from error

        return scrubbed, named

    def _field(self, schema: Schema, field: Any) -> Convert:
        if schema.type is Type.MAP and is_map(field):
            entry = field.message_type.fields_by_name
            keys = self._field(schema.key_schema, entry["key"])
            values = self._field(schema.value_schema, entry["value"])
            if field.message_type.GetOptions().map_entry:
                return lambda value: {
                    keys(key): values(item) for key, item in _checked(schema, value).items()
                }
            return lambda value: [
                {
                    part: encode(given)
                    for part, encode, given in (("key", keys, key), ("value", values, item))
                    if given is not None
                }
                for key, item in _checked(schema, value).items()
            ]
        if schema.type is Type.ARRAY and field.is_repeated:
            convert_item = self._single(schema.value_schema, field)
            return lambda value: [convert_item(item) for item in _checked(schema, value)]
        if field.is_repeated:
            raise DataException(f"{schema!r} can't be written to {field.name}, which is repeated")
        return self._single(schema, field)

    def _single(self, schema: Schema, field: Any) -> Convert:
        if schema.name in LOGICAL_TYPES:
            return lambda value: _LOGICAL_OUT[schema.name or ""](schema, _checked(schema, value))
        if field.enum_type is not None:
            return _enum_encoder(schema)
        if field.message_type is not None:
            if schema.type is Type.STRUCT:
                return self._struct(schema, field.message_type)
            if field.message_type.full_name not in WRAPPED:
                name = field.message_type.full_name
                raise DataException(f"{schema!r} can't be written as {name}")
            inner = self._single(schema, field.message_type.fields_by_name["value"])
            return lambda value: {"value": inner(value)}
        if schema.type in INTEGER_BITS:
            return _integer(schema, UNSIGNED.get(NAMES[field.type], 0))
        return lambda value: _checked(schema, value)


def _enum_encoder(schema: Schema) -> Convert:
    kind, parameters = enum_parameter(schema), schema.parameters or {}

    def encode(value: Any) -> Any:
        checked = _checked(schema, value)
        number = parameters.get(f"{kind}.{checked}")
        return checked if number is None else int(number)

    return encode


def _integer(schema: Schema, unsigned: int) -> Convert:
    half = 1 << INTEGER_BITS[schema.type] - 1

    def integer(value: Any) -> Any:
        if type(value) is not int or not -half <= value < half:
            raise DataException(f"Invalid value for {schema.type}: {value!r}")
        return value % unsigned if unsigned else value

    return integer


def _checked(schema: Schema, value: Any) -> Any:
    accepted: Any = LOGICAL_TYPES.get(schema.name or "", PYTHON_TYPES.get(schema.type, ()))
    if isinstance(value, accepted) and (not isinstance(value, bool) or schema.type is Type.BOOLEAN):
        return bytes(value) if isinstance(value, bytearray | memoryview) else value
    raise DataException(f"Invalid type for {schema.type}: {type(value).__name__}")


def _values(schema: Schema, value: Any) -> list[Any]:
    if type(value) is not Struct:
        raise DataException(f"Invalid type for STRUCT: {type(value).__name__}")
    if value.schema is not schema and value.schema != schema:
        raise DataException("Mismatching struct schema")
    return value._values


# Logical types are messages.


def _decimal_out(schema: Schema, value: Decimal) -> dict[str, Any]:
    digits = value.as_tuple().digits
    raw = decimal_to_bytes(schema, value)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "it has bytes"
    return {"value": raw, "precision": len(digits), "scale": -exponent}


def _timestamp_out(schema: Schema, value: datetime.datetime) -> dict[str, Any]:
    seconds, millis = divmod(to_millis(value), 1000)
    return {"seconds": seconds, "nanos": millis * NANOS}


_LOGICAL_OUT: Final[dict[str, Callable[[Schema, Any], dict[str, Any]]]] = {
    DECIMAL: _decimal_out,
    DATE: lambda schema, day: {"year": day.year, "month": day.month, "day": day.day},
    TIME: lambda schema, time: {
        "hours": time.hour,
        "minutes": time.minute,
        "seconds": time.second,
        "nanos": time.microsecond // 1000 * NANOS,
    },
    TIMESTAMP: _timestamp_out,
}
