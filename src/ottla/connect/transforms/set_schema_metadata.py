"""SetSchemaMetadata: sets the name and version of the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    defaults_of,
    filled,
    replace_null_config,
)


class SetSchemaMetadata(KeyOrValueTransform):
    """Sets the name and version of the schema."""

    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("schema.name", ConfigType.STRING, None, Importance.HIGH, "The schema's name.")
            .define("schema.version", ConfigType.INT, None, Importance.HIGH, "Its version.")
        )
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        named = {"name": settings["schema.name"], "version": settings["schema.version"]}
        self._changes = {name: value for name, value in named.items() if value is not None}
        if not self._changes:
            raise ConfigException("Neither schema name nor version configured")
        self._fill = bool(settings["replace.null.with.default"])
        self._schemas: SchemaCache[Schema] = SchemaCache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataException("Schema required for [updating schema metadata]")
        made = self._schemas.get(schema) or self._schemas.put(
            schema, schema.replace(**self._changes)
        )
        if isinstance(value, Struct):
            value = Struct.of(made, filled(value, defaults_of(schema) if self._fill else None))
        return self.changed(record, made, value)


class SetSchemaMetadataKey(SetSchemaMetadata):
    of_key = True
