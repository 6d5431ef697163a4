"""ValueToKey: replaces the key by fields of the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct, struct_schema
from ottla.connect.errors import DataException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    R,
    Transform,
    replace_null_config,
    require_map,
    require_struct,
)
from ottla.connect.validators import some_distinct


class ValueToKey(Transform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef().define(
            "fields",
            ConfigType.LIST,
            importance=Importance.HIGH,
            doc="Fields of the value that form the new key.",
            validator=some_distinct,
        )
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._fields: list[str] = settings["fields"]
        self._fill = bool(settings["replace.null.with.default"])
        self._schemas: SchemaCache[Schema] = SchemaCache()

    def apply(self, record: R) -> R | None:
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            mapping = require_map(record.value, purpose)
            key: Any = {name: mapping.get(name) for name in self._fields}
            return record.replace(key_schema=None, key=key)
        struct = require_struct(record.value, purpose)
        schema = self._schemas.get(struct.schema) or self._schemas.put(
            struct.schema, self._key_schema(struct.schema)
        )
        get = struct.__getitem__ if self._fill else struct.get_without_default
        values = [get(name) for name in self._fields]
        return record.replace(key_schema=schema, key=Struct.of(schema, values))

    def _key_schema(self, schema: Schema) -> Schema:
        fields = {}
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields[name] = field.schema
        return struct_schema(fields)
