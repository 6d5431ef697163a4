"""SQL types <-> JSON Schema types, as ksqlDB registers and infers them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.rows.formats.avro.types import CONNECT
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
from ottla.schemas.json_schema.node import JsonNode

PLAIN: Final[dict[SqlBaseType, dict[str, Any]]] = {
    SqlBaseType.BOOLEAN: {"type": "boolean"},
    SqlBaseType.INTEGER: {"type": "integer", "connect.type": "int32"},
    SqlBaseType.BIGINT: {"type": "integer", "connect.type": "int64"},
    SqlBaseType.DOUBLE: {"type": "number", "connect.type": "float64"},
    SqlBaseType.STRING: {"type": "string"},
    SqlBaseType.BYTES: {"type": "string", "connect.type": "bytes"},
    SqlBaseType.TIME: {
        "type": "integer",
        "title": f"{CONNECT}.Time",
        "connect.version": 1,
        "connect.type": "int32",
    },
    SqlBaseType.DATE: {
        "type": "integer",
        "title": f"{CONNECT}.Date",
        "connect.version": 1,
        "connect.type": "int32",
    },
    SqlBaseType.TIMESTAMP: {
        "type": "integer",
        "title": f"{CONNECT}.Timestamp",
        "connect.version": 1,
        "connect.type": "int64",
    },
}
DEPTH_MAX: Final = 64


# SQL -> JSON Schema


def json_schema(fields: Sequence[SqlField], *, wrapped: bool) -> dict[str, Any]:
    return _object(fields) if wrapped else _type(fields[0].type)


def _object(fields: Sequence[SqlField]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            field.name: {"connect.index": index, **_optional(field.type)}
            for index, field in enumerate(fields)
        },
    }


def _optional(type_: SqlType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _type(type_)]}


def _type(type_: SqlType) -> dict[str, Any]:
    if type_.kind in PLAIN:
        return PLAIN[type_.kind]
    if type_.kind is SqlBaseType.DECIMAL:
        parameters = {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)}
        return {
            "type": "number",
            "title": f"{CONNECT}.Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": parameters,
        }
    if type_.kind is SqlBaseType.STRUCT:
        return _object(type_.fields)
    assert type_.element is not None
    if type_.kind is SqlBaseType.ARRAY:
        return {"type": "array", "items": _optional(type_.element)}
    assert type_.key is not None
    entry = _object([SqlField("key", type_.key), SqlField("value", type_.element)])
    return {"type": "array", "connect.type": "map", "items": entry}


# JSON Schema -> SQL


class JsonTypeInference(TypeInference[JsonNode]):
    def type(self, node: JsonNode, within: Within = ()) -> SqlType:
        node = _one(node, within)
        kind = node.get("type")
        if isinstance(kind, list):
            kinds = [name for name in kind if name != "null"]
            kind = kinds[0] if len(kinds) == 1 else None
        if kind is None and node.get("enum") is not None:
            kind = "string"
        connect = node.get("connect.type")
        titled = str(node.get("title", "")).removeprefix(f"{CONNECT}.")
        if titled == "Decimal" and connect == "bytes":
            return _decimal_type(node)
        if titled in MOMENTS and kind == "integer":
            return MOMENTS[titled]
        found = SCALARS.get((str(kind), connect)) or SCALARS.get((str(kind), None))
        if found is not None:
            return found
        inner = (*within, id(node))
        if kind == "array":
            return self._array_type(node, connect, inner)
        if kind == "object":
            return self._object_type(node, inner)
        raise UnsupportedTypeError(f"Unsupported type: {kind}")

    def _array_type(self, node: JsonNode, connect: str | None, within: Within) -> SqlType:
        items = node.child("items")
        if items is None or items.accepts_everything:
            raise UnsupportedTypeError("an array of anything")
        if connect != "map":
            return array(self.type(items, within))
        entry = _one(items, within)
        value = entry.get("properties", {}).get("value")
        if value is None:
            raise UnsupportedTypeError("a map without values")
        return map_of(STRING, self.type(entry.at(value), within))

    def _object_type(self, node: JsonNode, within: Within) -> SqlType:
        values = node.child("additionalProperties")
        if values is not None and not node.get("properties") and isinstance(values.raw, dict):
            return map_of(STRING, self.type(values, within))
        return self.struct("an object", _properties(node), within)


def _one(node: JsonNode, within: Within) -> JsonNode:
    """Follows references and unwraps nullable unions."""
    for _ in range(DEPTH_MAX):
        node = node.followed()
        word = next((keyword for keyword in ("oneOf", "anyOf", "allOf") if node.get(keyword)), "")
        if not word or node.get("type") is not None:
            break
        others = [child for child in node.children(word) if child.followed().get("type") != "null"]
        if len(others) != 1:
            raise UnsupportedTypeError(f"{word} of {len(others)} types")
        node = others[0]
    if id(node) in within:
        raise RecursiveSchemaError("an object is within itself")
    return node


def _properties(node: JsonNode) -> Iterator[tuple[str, JsonNode]]:
    """In the order of `connect.index`, else as written."""
    written = list((node.get("properties") or {}).items())
    last = len(written)
    written.sort(key=lambda item: item[1].get("connect.index", last) if item[1] else last)
    return ((name, node.at(raw)) for name, raw in written)


def _decimal_type(node: JsonNode) -> SqlType:
    parameters = node.get("connect.parameters") or {}
    precision = int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS_MAX))
    return limited_decimal(precision, int(parameters.get("scale", 0)))


MOMENTS: Final = {"Time": TIME, "Date": DATE, "Timestamp": TIMESTAMP}
SCALARS: Final[dict[tuple[str, str | None], SqlType]] = {
    ("boolean", None): BOOLEAN,
    ("integer", None): BIGINT,
    ("integer", "int8"): INTEGER,
    ("integer", "int16"): INTEGER,
    ("integer", "int32"): INTEGER,
    ("number", None): DOUBLE,
    ("string", None): STRING,
    ("string", "bytes"): BYTES,
}
