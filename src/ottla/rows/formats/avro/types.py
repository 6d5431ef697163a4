"""SQL types <-> Avro types, as ksqlDB registers and infers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.rows.formats.avro.payload_reader import is_map_of_entries, union_field
from ottla.rows.formats.type_inference import (
    RecursiveSchemaError,
    TypeInference,
    UnsupportedTypeError,
    Within,
    limited_decimal,
)
from ottla.rows.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlBaseType,
    SqlField,
    SqlType,
    array,
    map_of,
)
from ottla.schemas.avro.node import AvroNode

NAMESPACE: Final = "io.confluent.ksql.avro_schemas"
VALUE_NAME: Final = f"{NAMESPACE}.KsqlDataSourceSchema"
CONNECT: Final = "org.apache.kafka.connect.data"

PLAIN: Final[dict[SqlBaseType, str]] = {
    SqlBaseType.BOOLEAN: "boolean",
    SqlBaseType.INTEGER: "int",
    SqlBaseType.BIGINT: "long",
    SqlBaseType.DOUBLE: "double",
    SqlBaseType.STRING: "string",
    SqlBaseType.BYTES: "bytes",
}
MOMENTS: Final[dict[SqlBaseType, tuple[str, str, str]]] = {
    SqlBaseType.TIME: ("int", "Time", "time-millis"),
    SqlBaseType.DATE: ("int", "Date", "date"),
    SqlBaseType.TIMESTAMP: ("long", "Timestamp", "timestamp-millis"),
}


# SQL -> Avro


def avro_schema(fields: Sequence[SqlField], *, wrapped: bool, name: str = "") -> Any:
    """The schema for these columns, as JSON. Every field is nullable; an unwrapped value is not,
    because a null value is a tombstone."""
    name = name or VALUE_NAME
    if not wrapped:
        return _type(fields[0].type, name)
    return _record(fields, name)


def _record(fields: Sequence[SqlField], name: str) -> dict[str, Any]:
    space, _, simple = name.rpartition(".")
    return {
        "type": "record",
        "name": simple,
        **({"namespace": space} if space else {}),
        "fields": [_field(field.name, field.type, f"{name}_{field.name}") for field in fields],
        "connect.name": name,
    }


def _field(name: str, type_: SqlType, inner: str) -> dict[str, Any]:
    return {
        "name": name.replace(".", "_"),
        "type": ["null", _type(type_, inner)],
        "default": None,
    }


def _type(type_: SqlType, name: str) -> Any:
    if type_.kind in PLAIN:
        return PLAIN[type_.kind]
    if type_.kind in MOMENTS:
        plain, connect, logical = MOMENTS[type_.kind]
        return {
            "type": plain,
            "connect.version": 1,
            "connect.name": f"{CONNECT}.{connect}",
            "logicalType": logical,
        }
    if type_.kind is SqlBaseType.DECIMAL:
        return _decimal(type_)
    if type_.kind is SqlBaseType.STRUCT:
        return _record(type_.fields, name)
    assert type_.element is not None
    if type_.kind is SqlBaseType.ARRAY:
        return {"type": "array", "items": ["null", _type(type_.element, name)]}
    return {"type": "array", "items": _entry(type_, name)}


def _entry(type_: SqlType, name: str) -> dict[str, Any]:
    """Connect writes maps with optional keys as arrays of entries, and ksqlDB's keys are
    optional."""
    assert type_.key is not None
    assert type_.element is not None
    space, _, simple = name.rpartition(".")
    return {
        "type": "record",
        "name": simple,
        **({"namespace": space} if space else {}),
        "fields": [
            _field("key", type_.key, f"{name}_MapKey"),
            _field("value", type_.element, f"{name}_MapValue"),
        ],
        "connect.internal.type": "MapEntry",
    }


def _decimal(type_: SqlType) -> dict[str, Any]:
    parameters = {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)}
    return {
        "type": "bytes",
        "scale": type_.scale,
        "precision": type_.precision,
        "connect.version": 1,
        "connect.parameters": parameters,
        "connect.name": f"{CONNECT}.Decimal",
        "logicalType": "decimal",
    }


# Avro -> SQL


class AvroTypeInference(TypeInference[AvroNode]):
    def type(self, node: AvroNode, within: Within = ()) -> SqlType:
        if id(node) in within:
            raise RecursiveSchemaError(f"the type {node.name} is within itself")
        logical = node.properties.get("logicalType")
        found = SCALARS.get((node.kind, logical)) or SCALARS.get((node.kind, None))
        if node.kind in ("bytes", "fixed"):
            return _decimal_type(node) if logical == "decimal" else BYTES
        if found is not None:
            return found
        if node.kind == "union":
            return self._union_type(node, within)
        inner = (*within, id(node))
        if node.kind in ("record", "error"):
            return self.struct(node.name, [(f.name, f.type) for f in node.fields], inner)
        if node.kind == "map":
            return map_of(STRING, self.type(node.element, within))
        if node.kind == "array" and is_map_of_entries(node):
            return self._entries_type(node.element, inner)
        if node.kind == "array":
            return array(self.type(node.element, within))
        raise UnsupportedTypeError(f"Unsupported type: {node.kind}")

    def _union_type(self, node: AvroNode, within: Within) -> SqlType:
        others = [branch for branch in node.branches if branch.kind != "null"]
        if not others:
            raise UnsupportedTypeError("Unsupported type: null")
        if len(others) == 1:
            return self.type(others[0], within)
        fields = [
            SqlField(self._name(union_field(other)), self.type(other, within)) for other in others
        ]
        return SqlType(SqlBaseType.STRUCT, fields=tuple(fields))

    def _entries_type(self, entry: AvroNode, within: Within) -> SqlType:
        key, value = (field.type for field in entry.fields)
        key_type = self.type(key, within)
        if key_type.kind not in (
            SqlBaseType.STRING,
            SqlBaseType.INTEGER,
            SqlBaseType.BIGINT,
            SqlBaseType.BOOLEAN,
        ):
            raise UnsupportedTypeError(f"Unsupported type for map key: {key_type}")
        return map_of(STRING, self.type(value, within))


def _decimal_type(node: AvroNode) -> SqlType:
    precision = int(node.properties.get("precision") or DECIMAL_DIGITS_MAX)
    return limited_decimal(precision, int(node.properties.get("scale", 0)))


SCALARS: Final[dict[tuple[str, str | None], SqlType]] = {
    ("boolean", None): BOOLEAN,
    ("int", None): INTEGER,
    ("long", None): BIGINT,
    ("float", None): DOUBLE,
    ("double", None): DOUBLE,
    ("string", None): STRING,
    ("enum", None): STRING,
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}
