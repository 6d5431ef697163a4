"""Schemas as JSON: the `schema` half of an envelope, in Kafka's form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.connect.data import Field, Schema, Type
from ottla.connect.errors import DataException

NAMES: Final = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
TYPES: Final = {name: type for type, name in NAMES.items()}

Encode = Callable[[Schema, Any], Any]
Decode = Callable[[Schema, Any], Any]


def to_json(schema: Schema, encode: Encode) -> dict[str, Any]:
    """`encode` makes JSON of a default value."""
    told: dict[str, Any] = {"type": NAMES[schema.type]}
    if schema.type is Type.ARRAY:
        told["items"] = to_json(schema.value_schema, encode)
    elif schema.type is Type.MAP:
        told["keys"] = to_json(schema.key_schema, encode)
        told["values"] = to_json(schema.value_schema, encode)
    elif schema.type is Type.STRUCT:
        told["fields"] = [_field_to_json(field, encode) for field in schema.fields]
    told["optional"] = schema.optional
    for name in ("name", "version", "doc", "parameters"):
        if getattr(schema, name) is not None:
            told[name] = getattr(schema, name)
    if schema.default is not None:
        told["default"] = encode(schema, schema.default)
    return told


def _field_to_json(field: Field, encode: Encode) -> dict[str, Any]:
    return {**to_json(field.schema, encode), "field": field.name}


def from_json(told: Any, decode: Decode) -> Schema | None:
    """`decode` makes a default value of JSON. DataException for what is no schema."""
    if told is None:
        return None
    named = told.get("type") if isinstance(told, dict) else None
    if not isinstance(named, str):
        raise DataException("Schema must contain 'type' field")
    if named not in TYPES:
        raise DataException(f"Unknown schema type: {named}")
    type = TYPES[named]
    parts: dict[str, Any] = {"type": type, "optional": told.get("optional") is True}
    parts |= _inner(type, told, decode)
    for name, kind in (("name", str), ("version", int), ("doc", str), ("parameters", dict)):
        if isinstance(told.get(name), kind) and not isinstance(told[name], bool):
            parts[name] = told[name]
    if any(not isinstance(each, str) for each in parts.get("parameters", {}).values()):
        raise DataException("Schema parameters must have string values.")
    schema = Schema(**parts)
    if told.get("default") is None:
        return schema
    return schema.replace(default=decode(schema, told["default"]))


def _inner(type: Type, told: dict[str, Any], decode: Decode) -> dict[str, Any]:
    if type is Type.ARRAY:
        items = from_json(told.get("items"), decode)
        if items is None:
            raise DataException("Array schema did not specify the element type")
        return {"value_schema": items}
    if type is Type.MAP:
        keys, values = from_json(told.get("keys"), decode), from_json(told.get("values"), decode)
        if keys is None:
            raise DataException("Map schema did not specify the key type")
        if values is None:
            raise DataException("Map schema did not specify the value type")
        return {"key_schema": keys, "value_schema": values}
    if type is Type.STRUCT:
        fields = told.get("fields")
        if not isinstance(fields, list):
            raise DataException('Struct schema\'s "fields" argument is not an array.')
        return {"fields": [_field(each, decode) for each in fields]}
    return {}


def _field(told: Any, decode: Decode) -> tuple[str, Schema]:
    name = told.get("field") if isinstance(told, dict) else None
    if not isinstance(name, str):
        raise DataException("Struct schema's field name not specified properly")
    schema = from_json(told, decode)
    assert schema is not None, "a dict is a schema or raises"
    return name, schema
