"""JSON -> values of JsonSchemaConverter: as JsonConverter's, except for maps and unions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ottla.connect.converters.json_decoders import Decoder, JsonDecoders, node_type
from ottla.connect.converters.json_schema_settings import is_object_map, is_union
from ottla.connect.data import DECIMAL, Field, Schema, Struct, Type
from ottla.connect.errors import DataException


class JsonSchemaDecoders(JsonDecoders):
    def _map(self, schema: Schema) -> Decoder:
        if is_object_map(schema):
            return super()._map(schema)
        of_key, of_value = self.of(schema.key_schema), self.of(schema.value_schema)

        def from_entries(value: Any) -> Any:
            if not isinstance(value, list):
                raise DataException(
                    "Maps with non-string fields should be encoded as JSON array of objects, but "
                    f"found {node_type(value)}"
                )
            for entry in value:
                if not isinstance(entry, dict) or not entry.keys() <= {"key", "value"}:
                    raise DataException(f"Found invalid map entry: {node_type(entry)}")
            return {of_key(e.get("key")): of_value(e.get("value")) for e in value}

        return from_entries

    def _struct(self, schema: Schema) -> Decoder:
        if is_union(schema):
            return self._union(schema)
        whole = super()._struct(schema)
        decoders = [(field.name, self.of(field.schema)) for field in schema.fields]
        needed = {
            field.name
            for field in schema.fields
            if not field.schema.optional and field.schema.default is None
        }

        def struct(value: Any) -> Any:
            if type(value) is not dict or needed <= value.keys():
                return whole(value)
            # A missing property is null, even if its schema does not allow null.
            values = [decode(value[name]) if name in value else None for name, decode in decoders]
            return Struct.of(schema, values)

        return struct

    def _union(self, schema: Schema) -> Decoder:
        decoders = [self.of(field.schema) for field in schema.fields]

        def union(value: Any) -> Any:
            field = _fitting(schema, value)
            values: list[Any] = [None] * len(decoders)
            values[field.index] = decoders[field.index](value)
            return Struct.of(schema, values)

        return union


def _fitting(schema: Schema, value: Any) -> Field:
    """The first field of a simple type that matches, else the struct with most names in common."""
    best, most = None, 0
    for field in schema.fields:
        if _is_simple(field.schema, value):
            return field
        shared = _shared_names(field.schema, value)
        if shared > most:
            best, most = field, shared
    if best is None:
        raise DataException("Did not find matching oneof field for data")
    return best


def _is_simple(schema: Schema, value: Any) -> bool:
    if schema.type is Type.BOOLEAN:
        return isinstance(value, bool)
    if schema.type in (Type.INT8, Type.INT16, Type.INT32, Type.INT64):
        return isinstance(value, int) and not isinstance(value, bool)
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if schema.type in (Type.STRING, Type.BYTES):
        numeric = schema.name == DECIMAL and isinstance(value, float | Decimal)
        return isinstance(value, str) or numeric
    if schema.type is Type.ARRAY:
        return isinstance(value, list)
    return schema.type is Type.MAP and isinstance(value, dict | list)


def _shared_names(schema: Schema, value: Any) -> int:
    if schema.type is not Type.STRUCT or not isinstance(value, dict):
        return 0
    shared = [field for field in schema.fields if field.name in value]
    return len(shared) + sum(_shared_names(field.schema, value[field.name]) for field in shared)
