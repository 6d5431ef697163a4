"""HoistField: wraps the key or value in a struct or map with a single field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.data import Schema, Struct, struct_schema
from ottla.connect.schema import validate_value
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import KeyOrValueTransform, R


class HoistField(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "field", ConfigType.STRING, doc="The name of the single field of the new struct or map."
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._name = str(self.config_def().parse(props)["field"])
        self._schemas: SchemaCache[Schema] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, {self._name: value})
        made = self._schemas.get(schema) or self._schemas.put(
            schema, struct_schema({self._name: schema})
        )
        if value is None:
            validate_value(schema, value, f'field: "{self._name}"')
        return self.changed(record, made, Struct.of(made, [value]))


class HoistFieldKey(HoistField):
    of_key = True
