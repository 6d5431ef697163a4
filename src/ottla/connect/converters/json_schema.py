"""Connect schemas as JSON: the `schema` of JsonConverter's envelope."""

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


def schema_to_json(schema: Schema, encode: Encode) -> dict[str, Any]:
    """`encode` converts default values to JSON."""
    data: dict[str, Any] = {"type": NAMES[schema.type]}
    if schema.type is Type.ARRAY:
        data["items"] = schema_to_json(schema.value_schema, encode)
    elif schema.type is Type.MAP:
        data["keys"] = schema_to_json(schema.key_schema, encode)
        data["values"] = schema_to_json(schema.value_schema, encode)
    elif schema.type is Type.STRUCT:
        data["fields"] = [_field_to_json(field, encode) for field in schema.fields]
    data["optional"] = schema.optional
    for name in ("name", "version", "doc", "parameters"):
        if getattr(schema, name) is not None:
            data[name] = getattr(schema, name)
    if schema.default is not None:
        data["default"] = encode(schema, schema.default)
    return data


def _field_to_json(field: Field, encode: Encode) -> dict[str, Any]:
    return {**schema_to_json(field.schema, encode), "field": field.name}


def schema_from_json(data: Any, decode: Decode) -> Schema | None:
    """`decode` converts default values from JSON. Raises DataException if this is not a schema."""
    if data is None:
        return None
    named = data.get("type") if isinstance(data, dict) else None
    if not isinstance(named, str):
        raise DataException("Schema must contain 'type' field")
    if named not in TYPES:
        raise DataException(f"Unknown schema type: {named}")
    type = TYPES[named]
    parts: dict[str, Any] = {"type": type, "optional": data.get("optional") is True}
    parts |= _inner(type, data, decode)
    for name, kind in (("name", str), ("version", int), ("doc", str), ("parameters", dict)):
        if isinstance(data.get(name), kind) and not isinstance(data[name], bool):
            parts[name] = data[name]
    if any(not isinstance(parameter, str) for parameter in parts.get("parameters", {}).values()):
        raise DataException("Schema parameters must have string values.")
    schema = Schema(**parts)
    if data.get("default") is None:
        return schema
    return schema.replace(default=decode(schema, data["default"]))


def _inner(type: Type, data: dict[str, Any], decode: Decode) -> dict[str, Any]:
    if type is Type.ARRAY:
        items = schema_from_json(data.get("items"), decode)
        if items is None:
            raise DataException("Array schema did not specify the element type")
        return {"value_schema": items}
    if type is Type.MAP:
        keys, values = (
            schema_from_json(data.get("keys"), decode),
            schema_from_json(data.get("values"), decode),
        )
        if keys is None:
            raise DataException("Map schema did not specify the key type")
        if values is None:
            raise DataException("Map schema did not specify the value type")
        return {"key_schema": keys, "value_schema": values}
    if type is Type.STRUCT:
        fields = data.get("fields")
        if not isinstance(fields, list):
            raise DataException('Struct schema\'s "fields" argument is not an array.')
        return {"fields": [_field(field, decode) for field in fields]}
    return {}


def _field(data: Any, decode: Decode) -> tuple[str, Schema]:
    name = data.get("field") if isinstance(data, dict) else None
    if not isinstance(name, str):
        raise DataException("Struct schema's field name not specified properly")
    schema = schema_from_json(data, decode)
    assert schema is not None, "a dict is a schema or raises"
    return name, schema
