"""SQL types <-> JSON Schema types, as ksqlDB registers and infers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.rows.formats.avro.types import CONNECT, Name, RecursiveSchemaError, UnsupportedTypeError
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
DECIMAL_DIGITS_MAX: Final = 38
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


def sql_fields(node: JsonNode, name: Name, skipped: Callable[[str], None]) -> list[SqlField]:
    """The columns of an object: `name` maps property names; `skipped` is called for a property that
    can't be a column. Raises RecursiveSchemaError."""
    return _fields(_one(node, ()), name, skipped, ())


def sql_type(
    node: JsonNode, name: Name = str, skipped: Callable[[str], None] = lambda cause: None
) -> SqlType:
    """Raises UnsupportedTypeError and RecursiveSchemaError."""
    return _sql_type(node, name, skipped, ())


def _one(node: JsonNode, within: tuple[int, ...]) -> JsonNode:
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


def _sql_type(
    node: JsonNode, name: Name, skipped: Callable[[str], None], within: tuple[int, ...]
) -> SqlType:
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
        return _array_type(node, connect, name, skipped, inner)
    if kind == "object":
        return _object_type(node, connect, name, skipped, inner)
    raise UnsupportedTypeError(f"Unsupported type: {kind}")


def _array_type(
    node: JsonNode,
    connect: str | None,
    name: Name,
    skipped: Callable[[str], None],
    within: tuple[int, ...],
) -> SqlType:
    items = node.child("items")
    if items is None or items.accepts_everything:
        raise UnsupportedTypeError("an array of anything")
    if connect != "map":
        return array(_sql_type(items, name, skipped, within))
    entry = _one(items, within)
    value = entry.get("properties", {}).get("value")
    if value is None:
        raise UnsupportedTypeError("a map without values")
    return map_of(STRING, _sql_type(entry.at(value), name, skipped, within))


def _object_type(
    node: JsonNode,
    connect: str | None,
    name: Name,
    skipped: Callable[[str], None],
    within: tuple[int, ...],
) -> SqlType:
    values = node.child("additionalProperties")
    if values is not None and not node.get("properties") and isinstance(values.raw, dict):
        return map_of(STRING, _sql_type(values, name, skipped, within))
    fields = _fields(node, name, skipped, within)
    if not fields:
        raise UnsupportedTypeError("an object without properties of a type that SQL has")
    return SqlType(SqlBaseType.STRUCT, fields=tuple(fields))


def _fields(
    node: JsonNode, name: Name, skipped: Callable[[str], None], within: tuple[int, ...]
) -> list[SqlField]:
    """In the order of `connect.index`, else as written."""
    found: dict[str, SqlField] = {}
    written = list((node.get("properties") or {}).items())
    last = len(written)
    written.sort(key=lambda item: item[1].get("connect.index", last) if item[1] else last)
    for written_name, raw in written:
        try:
            type_ = _sql_type(node.at(raw), name, skipped, (*within, id(node)))
        except UnsupportedTypeError as error:
            skipped(f"{written_name}: {error}")
            continue
        called = name(written_name)
        if called in found:
            skipped(f"{written_name}: there is a column {called} already")
        else:
            found[called] = SqlField(called, type_)
    return list(found.values())


def _decimal_type(node: JsonNode) -> SqlType:
    parameters = node.get("connect.parameters") or {}
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS_MAX))
    if not 0 <= scale <= DECIMAL_DIGITS_MAX:
        raise UnsupportedTypeError(f"a decimal with scale {scale}")
    return decimal(max(min(precision, DECIMAL_DIGITS_MAX), scale, 1), scale)


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
