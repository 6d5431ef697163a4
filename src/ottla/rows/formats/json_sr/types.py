"""SQL types <-> those of JSON Schema, as ksqlDB has them: what it registers, and what it infers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.rows.formats.avro.types import CONNECT, Name, Recursive, Unsupported
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
    Field,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
)
from ottla.schemas.json_schema.node import JsonNode

PLAIN: Final[dict[Kind, dict[str, Any]]] = {
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.INTEGER: {"type": "integer", "connect.type": "int32"},
    Kind.BIGINT: {"type": "integer", "connect.type": "int64"},
    Kind.DOUBLE: {"type": "number", "connect.type": "float64"},
    Kind.STRING: {"type": "string"},
    Kind.BYTES: {"type": "string", "connect.type": "bytes"},
    Kind.TIME: {
        "type": "integer",
        "title": f"{CONNECT}.Time",
        "connect.version": 1,
        "connect.type": "int32",
    },
    Kind.DATE: {
        "type": "integer",
        "title": f"{CONNECT}.Date",
        "connect.version": 1,
        "connect.type": "int32",
    },
    Kind.TIMESTAMP: {
        "type": "integer",
        "title": f"{CONNECT}.Timestamp",
        "connect.version": 1,
        "connect.type": "int64",
    },
}
DECIMAL_DIGITS_MAX: Final = 38
DEPTH_MAX: Final = 64


# SQL -> JSON Schema


def json_schema(fields: Sequence[Field], *, wrapped: bool) -> dict[str, Any]:
    return _object(fields) if wrapped else _type(fields[0].type)


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            each.name: {"connect.index": index, **_optional(each.type)}
            for index, each in enumerate(fields)
        },
    }


def _optional(type_: SqlType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _type(type_)]}


def _type(type_: SqlType) -> dict[str, Any]:
    if type_.kind in PLAIN:
        return PLAIN[type_.kind]
    if type_.kind is Kind.DECIMAL:
        parameters = {"scale": str(type_.scale), "connect.decimal.precision": str(type_.precision)}
        return {
            "type": "number",
            "title": f"{CONNECT}.Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": parameters,
        }
    if type_.kind is Kind.STRUCT:
        return _object(type_.fields)
    assert type_.element is not None
    if type_.kind is Kind.ARRAY:
        return {"type": "array", "items": _optional(type_.element)}
    assert type_.key is not None
    entry = _object([Field("key", type_.key), Field("value", type_.element)])
    return {"type": "array", "connect.type": "map", "items": entry}


# JSON Schema -> SQL


def sql_fields(node: JsonNode, name: Name, skipped: Callable[[str], None]) -> list[Field]:
    """The columns of an object: `name` says how a property is called; what can't be a column is
    left out and told of. Raises Recursive."""
    return _fields(_one(node, ()), name, skipped, ())


def sql_type(
    node: JsonNode, name: Name = str, skipped: Callable[[str], None] = lambda cause: None
) -> SqlType:
    """Raises Unsupported and Recursive."""
    return _sql_type(node, name, skipped, ())


def _one(node: JsonNode, within: tuple[int, ...]) -> JsonNode:
    """Behind references, and behind what only says that it can be null."""
    for _ in range(DEPTH_MAX):
        node = node.followed()
        word = next((each for each in ("oneOf", "anyOf", "allOf") if node.get(each)), "")
        if not word or node.get("type") is not None:
            break
        others = [each for each in node.children(word) if each.followed().get("type") != "null"]
        if len(others) != 1:
            raise Unsupported(f"{word} of {len(others)} types")
        node = others[0]
    if id(node) in within:
        raise Recursive("an object is within itself")
    return node


def _sql_type(
    node: JsonNode, name: Name, skipped: Callable[[str], None], within: tuple[int, ...]
) -> SqlType:
    node = _one(node, within)
    kind = node.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
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
    raise Unsupported(f"Unsupported type: {kind}")


def _array_type(
    node: JsonNode,
    connect: str | None,
    name: Name,
    skipped: Callable[[str], None],
    within: tuple[int, ...],
) -> SqlType:
    items = node.child("items")
    if items is None or items.accepts_everything:
        raise Unsupported("an array of anything")
    if connect != "map":
        return array(_sql_type(items, name, skipped, within))
    entry = _one(items, within)
    value = entry.get("properties", {}).get("value")
    if value is None:
        raise Unsupported("a map without values")
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
        raise Unsupported("an object without properties of a type that SQL has")
    return SqlType(Kind.STRUCT, fields=tuple(fields))


def _fields(
    node: JsonNode, name: Name, skipped: Callable[[str], None], within: tuple[int, ...]
) -> list[Field]:
    """In the order of Connect where it is given, else as they are written."""
    found: dict[str, Field] = {}
    written = list((node.get("properties") or {}).items())
    last = len(written)
    written.sort(key=lambda item: item[1].get("connect.index", last) if item[1] else last)
    for written_name, raw in written:
        try:
            type_ = _sql_type(node.at(raw), name, skipped, (*within, id(node)))
        except Unsupported as error:
            skipped(f"{written_name}: {error}")
            continue
        called = name(written_name)
        if called in found:
            skipped(f"{written_name}: there is a column {called} already")
        else:
            found[called] = Field(called, type_)
    return list(found.values())


def _decimal_type(node: JsonNode) -> SqlType:
    parameters = node.get("connect.parameters") or {}
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS_MAX))
    if not 0 <= scale <= DECIMAL_DIGITS_MAX:
        raise Unsupported(f"a decimal with scale {scale}")
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
