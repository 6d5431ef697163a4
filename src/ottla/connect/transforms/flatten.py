"""Flatten: replaces nested structs or maps by fields with joined names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    basics_of,
    class_name,
    require_map,
    require_struct,
    with_fields,
)


class Flatten(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "delimiter",
            ConfigType.STRING,
            ".",
            Importance.MEDIUM,
            "The delimiter between the field names of the path.",
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._delimiter = str(self.config_def().parse(props)["delimiter"])
        self._schemas: SchemaCache[Schema] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, "flattening"), "", flat)
            return self.changed(record, None, flat)
        struct = require_struct(value, "flattening")
        made = self._schemas.get(schema) or self._schemas.put(schema, self._flat_schema(schema))
        values: list[Any] = []
        self._flatten_struct(schema, struct, values)
        return self.changed(record, made, Struct.of(made, values))

    def _flatten_map(self, value: dict[str, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, item in value.items():
            name = self._name(prefix, key)
            if isinstance(item, dict):
                self._flatten_map(item, name, flat)
            elif isinstance(item, Struct):
                raise DataException(
                    f"Flatten transformation does not support {class_name(item)} for record "
                    f"without schemas (for field {name})."
                )
            else:
                flat[name] = item

    def _flat_schema(self, schema: Schema) -> Schema:
        fields: list[tuple[str, Schema]] = []
        self._flatten_schema(schema, "", fields, schema.optional, schema.default)
        return with_fields(schema, fields)

    def _flatten_schema(
        self,
        schema: Schema,
        prefix: str,
        fields: list[tuple[str, Schema]],
        optional: bool,
        parent: Struct | None,
    ) -> None:
        for field in schema.fields:
            inner, name = field.schema, self._name(prefix, field.name)
            default = inner.default
            if default is None and parent is not None:
                default = parent[field.name]
            may_miss = optional or inner.optional
            if inner.type is Type.STRUCT:
                self._flatten_schema(inner, name, fields, may_miss, default)
            elif inner.type is Type.MAP:
                raise DataException(
                    f"Flatten transformation does not support {inner.type} for record with "
                    f"schemas (for field {name})."
                )
            else:
                items = inner.value_schema if inner.type is Type.ARRAY else None
                flat = Schema(inner.type, optional=may_miss, default=default,
                              value_schema=items, **basics_of(inner))  # fmt: skip
                fields.append((name, flat))

    def _flatten_struct(self, schema: Schema, struct: Struct | None, values: list[Any]) -> None:
        for field in schema.fields:
            value = None if struct is None else struct[field.name]
            if field.schema.type is Type.STRUCT:
                self._flatten_struct(field.schema, value, values)
            else:
                values.append(value)

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


class FlattenKey(Flatten):
    of_key = True
