"""SQL types <-> Protobuf types, as ksqlDB registers and infers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ottla.rows.formats.type_inference import (
    Name,
    RecursiveSchemaError,
    TypeInference,
    UnsupportedTypeError,
    Within,
)
from ottla.rows.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlBaseType,
    SqlField,
    SqlType,
    array,
    decimal,
    map_of,
)

DEFAULT_NAME: Final = "ConnectDefault"
OPTIONAL: Final = "OPTIONAL"
WRAPPER: Final = "WRAPPER"

PLAIN: Final[dict[SqlBaseType, str]] = {
    SqlBaseType.BOOLEAN: "bool",
    SqlBaseType.INTEGER: "int32",
    SqlBaseType.BIGINT: "int64",
    SqlBaseType.DOUBLE: "double",
    SqlBaseType.STRING: "string",
    SqlBaseType.BYTES: "bytes",
}
WRAPPERS: Final[dict[SqlBaseType, str]] = {
    SqlBaseType.BOOLEAN: "BoolValue",
    SqlBaseType.INTEGER: "Int32Value",
    SqlBaseType.BIGINT: "Int64Value",
    SqlBaseType.DOUBLE: "DoubleValue",
    SqlBaseType.STRING: "StringValue",
    SqlBaseType.BYTES: "BytesValue",
}
KNOWN: Final[dict[SqlBaseType, tuple[str, str]]] = {
    SqlBaseType.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
    SqlBaseType.DATE: ("google.type.Date", "google/type/date.proto"),
    SqlBaseType.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    SqlBaseType.DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
}


# SQL -> .proto


def proto_schema(fields: Sequence[SqlField], *, name: str = "", nullable: str = "") -> str:
    """The .proto file for these columns. `nullable` says how null differs from 0: by `optional`, by
    Google's wrappers, or not at all."""
    return _FileWriter(nullable).file(fields, name)


class _FileWriter:
    def __init__(self, nullable: str) -> None:
        self._nullable = nullable.upper()
        self._imports: set[str] = set()
        self._count = 0

    def file(self, fields: Sequence[SqlField], name: str) -> str:
        package, _, simple = name.rpartition(".")
        lines = self._message(fields, simple or self._next(), "")
        head = ['syntax = "proto3";']
        if package:
            head.append(f"package {package};")
        head += [f'import "{path}";' for path in sorted(self._imports)]
        return "\n".join([*head, "", *lines, ""])

    def _next(self) -> str:
        self._count += 1
        return f"{DEFAULT_NAME}{self._count}"

    def _message(self, fields: Sequence[SqlField], name: str, indent: str) -> list[str]:
        inner: list[str] = []
        own = [
            f"{indent}  {self._field(field, number, inner, indent + '  ')}"
            for number, field in enumerate(fields, 1)
        ]
        return [f"{indent}message {name} {{", *own, *inner, f"{indent}}}"]

    def _field(self, field: SqlField, number: int, inner: list[str], indent: str) -> str:
        type_ = field.type
        if type_.kind is SqlBaseType.ARRAY:
            assert type_.element is not None
            name = self._type(type_.element, inner, indent)
            return f"repeated {name} {field.name} = {number}{self._meta(type_.element)};"
        if type_.kind is SqlBaseType.MAP:
            name = self._type(type_, inner, indent)
            return f"repeated {name} {field.name} = {number};"
        if type_.kind in PLAIN and self._nullable == WRAPPER:
            self._imports.add("google/protobuf/wrappers.proto")
            return f"google.protobuf.{WRAPPERS[type_.kind]} {field.name} = {number};"
        label = "optional " if type_.kind in PLAIN and self._nullable == OPTIONAL else ""
        name = self._type(type_, inner, indent)
        return f"{label}{name} {field.name} = {number}{self._meta(type_)};"

    def _type(self, type_: SqlType, inner: list[str], indent: str) -> str:
        """Nested messages are appended to `inner`."""
        if type_.kind in PLAIN:
            return PLAIN[type_.kind]
        if type_.kind in KNOWN:
            name, path = KNOWN[type_.kind]
            self._imports.add(path)
            return name
        if type_.kind is SqlBaseType.STRUCT:
            name = self._next()
            inner += self._message(type_.fields, name, indent)
            return name
        if type_.kind is SqlBaseType.ARRAY:
            raise UnsupportedTypeError("an ARRAY within an ARRAY or a MAP")
        assert type_.key is not None
        assert type_.element is not None
        name = f"{self._next()}Entry"
        own: list[str] = []
        value = self._field(SqlField("value", type_.element), 2, own, indent + "  ")
        key = f"{PLAIN[type_.key.kind]} key = 1;"  # keys are not nullable
        inner += [f"{indent}message {name} {{", f"{indent}  {key}", f"{indent}  {value}"]
        inner += [*own, f"{indent}}}"]
        return name

    def _meta(self, type_: SqlType) -> str:
        if type_.kind is not SqlBaseType.DECIMAL:
            return ""
        self._imports.add("confluent/meta.proto")
        given = f'{{key: "precision", value: "{type_.precision}"}}'
        scale = f'{{key: "scale", value: "{type_.scale}"}}'
        return f" [(confluent.field_meta) = {{params: [{given}, {scale}]}}]"


# .proto -> SQL

Decimals = Callable[[FieldDescriptor], tuple[int, int]]
"""Precision and scale of a field, from its options."""


class ProtobufTypeInference(TypeInference[Any]):
    def __init__(self, name: Name, skipped: Callable[[str], None], decimals: Decimals) -> None:
        super().__init__(name, skipped)
        self._decimals = decimals

    def fields(self, message: Any, within: Within = ()) -> list[SqlField]:
        """Raises RecursiveSchemaError."""
        return self.columns(*_fields(message, within))

    def type(self, node: Any, within: Within = ()) -> SqlType:
        """The type of a field."""
        if node.is_repeated:
            if is_map(node.message_type):
                value = node.message_type.fields_by_name["value"]
                return map_of(STRING, self._single(value, within))
            return array(self._single(node, within))
        return self._single(node, within)

    def _single(self, field: Any, within: Within) -> SqlType:
        if field.enum_type is not None:
            return STRING
        message = field.message_type
        if message is None:
            return SCALARS[field.cpp_type] if field.type != field.TYPE_BYTES else BYTES
        if is_wrapper(message):
            return self._single(message.fields_by_name["value"], within)
        if message.full_name == "confluent.type.Decimal":
            return decimal(*self._decimals(field))
        if message.full_name in MOMENTS:
            return MOMENTS[message.full_name]
        return self.struct(message.full_name, *_fields(message, within))


def _fields(message: Any, within: Within) -> tuple[list[tuple[str, Any]], Within]:
    if message.full_name in within:
        raise RecursiveSchemaError(f"the message {message.full_name} is within itself")
    return [(field.name, field) for field in message.fields], (*within, message.full_name)


def is_map(message: Descriptor | None) -> bool:
    """A map, or Connect's form of one: an array of messages with key and value."""
    if message is None:
        return False
    names = [field.name for field in message.fields]
    return names == ["key", "value"] and message.name.endswith("Entry")


def is_wrapper(message: Any) -> bool:
    name: str = message.full_name
    return name.startswith("google.protobuf.") and name.endswith("Value") and name not in ANYTHING


ANYTHING: Final = frozenset({"google.protobuf.Value", "google.protobuf.ListValue"})
MOMENTS: Final = {
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.type.Date": DATE,
    "google.type.TimeOfDay": TIME,
}
SCALARS: Final[dict[int, SqlType]] = {
    FieldDescriptor.CPPTYPE_INT32: INTEGER,
    FieldDescriptor.CPPTYPE_INT64: BIGINT,
    FieldDescriptor.CPPTYPE_UINT32: BIGINT,
    FieldDescriptor.CPPTYPE_UINT64: BIGINT,
    FieldDescriptor.CPPTYPE_DOUBLE: DOUBLE,
    FieldDescriptor.CPPTYPE_FLOAT: DOUBLE,
    FieldDescriptor.CPPTYPE_BOOL: BOOLEAN,
    FieldDescriptor.CPPTYPE_STRING: STRING,
}
