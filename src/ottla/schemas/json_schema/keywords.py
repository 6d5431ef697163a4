"""JSON Schema's keywords: which of them hold schemas, and the shape of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")

_ONE = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAPS = (
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
)


def is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def children(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The direct subschemas, each with its path from here."""
    for keyword, value in schema.items():
        if keyword in _ONE and is_schema(value):
            yield keyword, value
        elif keyword in _LISTS and isinstance(value, list):
            for position, item in enumerate(value):
                yield f"{keyword}/{position}", item
        elif keyword in _MAPS and isinstance(value, dict):
            for name, item in value.items():
                if keyword != "dependencies" or not isinstance(item, list):
                    yield f"{keyword}/{name}", item


def keyword_problem(schema: dict[str, Any]) -> str | None:
    """The first keyword whose value has the wrong shape, and the shape it must have."""
    for keyword, value in schema.items():
        rule = _SHAPES.get(keyword)
        if rule is not None and not rule[1](value):
            return f"{keyword} must be {rule[0]}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_type(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return _is_texts(value) and bool(value) and all(item in TYPES for item in value)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_schema_map(value: Any) -> bool:
    return isinstance(value, dict) and all(is_schema(item) for item in value.values())


def _is_schema_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(is_schema(item) for item in value)


_NUMBER = ("a number", _is_number)
# Draft 4 has a boolean beside `minimum`, later drafts have a number.
_LIMIT = ("a number or a boolean", lambda value: isinstance(value, bool) or _is_number(value))
_COUNT = ("a whole number of at least 0", _is_count)
_TEXT = ("a string", _is_text)
_SCHEMA = ("a schema", is_schema)
_SCHEMA_MAP = ("an object of schemas", _is_schema_map)
_SCHEMA_LIST = ("a list of at least one schema", _is_schema_list)

_SHAPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "type": (f"one or several of {', '.join(TYPES)}", _is_type),
    "$ref": _TEXT,
    "$id": _TEXT,
    "$schema": _TEXT,
    "title": _TEXT,
    "description": _TEXT,
    "pattern": _TEXT,
    "format": _TEXT,
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _LIMIT,
    "exclusiveMaximum": _LIMIT,
    "multipleOf": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "uniqueItems": ("a boolean", lambda value: isinstance(value, bool)),
    "enum": ("a list", lambda value: isinstance(value, list)),
    # Draft 3 had a boolean in the property itself; it is still common, and has no meaning now.
    "required": ("a list of names", lambda v: _is_texts(v) or isinstance(v, bool)),
    "properties": _SCHEMA_MAP,
    "patternProperties": _SCHEMA_MAP,
    "definitions": _SCHEMA_MAP,
    "$defs": _SCHEMA_MAP,
    "dependentSchemas": _SCHEMA_MAP,
    "dependencies": ("an object", _is_map),
    "dependentRequired": ("an object", _is_map),
    "items": (
        "a schema or a list of them",
        lambda v: is_schema(v) or v == [] or _is_schema_list(v),
    ),
    "prefixItems": _SCHEMA_LIST,
    "allOf": _SCHEMA_LIST,
    "anyOf": _SCHEMA_LIST,
    "oneOf": _SCHEMA_LIST,
    "additionalProperties": _SCHEMA,
    "additionalItems": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "unevaluatedItems": _SCHEMA,
    "contains": _SCHEMA,
    "propertyNames": _SCHEMA,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
}
