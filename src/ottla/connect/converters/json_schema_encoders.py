"""Values of JsonSchemaConverter -> JSON: as JsonConverter's, except for maps and unions."""

from __future__ import annotations

from typing import Any

from ottla.connect.converters.json_encoders import Encoder, JsonEncoders
from ottla.connect.converters.json_schema_settings import is_object_map, is_union
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import DataException


class JsonSchemaEncoders(JsonEncoders):
    def _map(self, schema: Schema) -> Encoder:
        if is_object_map(schema):
            return super()._map(schema)
        of_key, of_value = self.of(schema.key_schema), self.of(schema.value_schema)

        def entries(value: Any) -> Any:
            if not isinstance(value, dict):
                raise DataException(f"Invalid type for MAP: {type(value).__name__}")
            return [{"key": of_key(key), "value": of_value(item)} for key, item in value.items()]

        return entries

    def _struct(self, schema: Schema) -> Encoder:
        if not is_union(schema):
            return super()._struct(schema)
        encoders = [self.of(field.schema) for field in schema.fields]

        def union(value: Any) -> Any:
            if type(value) is not Struct or value.schema != schema:
                raise DataException("Mismatching schema.")
            for item, encode in zip(value._values, encoders, strict=True):
                if item is not None:
                    return encode(item)
            if schema.optional:
                return None
            raise DataException("No field of the union is set")

        return union
