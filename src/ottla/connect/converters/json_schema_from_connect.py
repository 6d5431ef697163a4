"""Connect's schemas in JSON Schema, as Confluent's JsonSchemaConverter writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.connect.converters.json_schema_settings import (
    ENUM,
    NAMESPACE,
    NULL_SYMBOL,
    JsonSchemaSettings,
    is_object_map,
    is_union,
)
from ottla.connect.converters.sum_types import SUM_TYPE_ENUM
from ottla.connect.data import DECIMAL, Schema, Type

Json = dict[str, Any]
EncodeDefault = Callable[[Schema, Any], Any]
NUMBERS: Final = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), "integer"),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), "number"),
}
NULL: Final[Json] = {"type": "null"}


class JsonSchemaFromConnect:
    """`default` converts default values to JSON."""

    def __init__(self, settings: JsonSchemaSettings, default: EncodeDefault) -> None:
        self._settings, self._default = settings, default

    def of(self, schema: Schema, index: int | None = None, *, in_union: bool = False) -> Json:
        """`index` is the position of a field, because properties of an object have no order."""
        place: Json = {} if index is None else {"connect.index": index}
        if is_union(schema):
            branches = [NULL] if schema.optional else []
            for field in schema.fields:
                branches.append(self.of(field.schema, field.index, in_union=True))
            return {"oneOf": branches, **place}
        made = self._typed(schema) | self._notes(schema)
        if not schema.optional or in_union:
            return made | place
        return {"oneOf": [NULL, made], **place}

    def _typed(self, schema: Schema) -> Json:
        if schema.type in NUMBERS:
            return {"type": NUMBERS[schema.type], "connect.type": schema.type.value}
        if schema.type is Type.BOOLEAN:
            return {"type": "boolean"}
        if schema.type is Type.STRING:
            return self._string(schema)
        if schema.type is Type.BYTES:
            numeric = schema.name == DECIMAL and self._settings.numeric_decimals
            return {"type": "number" if numeric else "string", "connect.type": "bytes"}
        if schema.type is Type.ARRAY:
            return {"type": "array", "items": self.of(schema.value_schema)}
        if schema.type is Type.MAP:
            return self._map(schema)
        made: Json = {
            "type": "object",
            "properties": {
                field.name: self.of(field.schema, field.index) for field in schema.fields
            },
        }
        if not self._settings.additional_properties:
            made["additionalProperties"] = False
        return made

    def _string(self, schema: Schema) -> Json:
        parameters = schema.parameters or {}
        kind = SUM_TYPE_ENUM if SUM_TYPE_ENUM in parameters else ENUM
        if kind not in parameters:
            return {"type": "string"}
        begin = f"{kind}."
        symbols = [name.removeprefix(begin) for name in parameters if name.startswith(begin)]
        return {"enum": [None if symbol == NULL_SYMBOL else symbol for symbol in symbols]}

    def _map(self, schema: Schema) -> Json:
        if is_object_map(schema):
            values = self.of(schema.value_schema)
            return {"type": "object", "connect.type": "map", "additionalProperties": values}
        properties = {
            "key": self.of(schema.key_schema, 0),
            "value": self.of(schema.value_schema, 1),
        }
        items = {"type": "object", "properties": properties}
        return {"type": "array", "connect.type": "map", "items": items}

    def _notes(self, schema: Schema) -> Json:
        notes: Json = {}
        if schema.name is not None:
            notes["title"] = schema.name
        if schema.version is not None:
            notes["connect.version"] = schema.version
        if schema.doc is not None:
            notes["description"] = schema.doc
        parameters = {
            name: text
            for name, text in (schema.parameters or {}).items()
            if not name.startswith(NAMESPACE)
        }
        if parameters:
            notes["connect.parameters"] = parameters
        if schema.default is not None:
            notes["default"] = self._default(schema, schema.default)
        return notes
