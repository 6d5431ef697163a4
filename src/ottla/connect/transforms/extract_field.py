"""ExtractField: replaces a struct or map by one of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType
from ottla.connect.errors import IllegalArgumentException
from ottla.connect.transforms.field_path import FieldPath, field_syntax_config
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    replace_null_config,
    require_map,
    require_struct,
)


class ExtractField(KeyOrValueTransform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef().define("field", ConfigType.STRING, doc="The field to extract.")
        return field_syntax_config(replace_null_config(config))

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._name = str(settings["field"])
        self._path = FieldPath(self._name, settings["field.syntax.version"])
        self._fill = bool(settings["replace.null.with.default"])

    def apply(self, record: R) -> R | None:
        purpose = "field extraction"
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            inner = None if value is None else self._path.of_map(require_map(value, purpose))
            return self.changed(record, None, inner)
        struct = None if value is None else require_struct(value, purpose)
        field = self._path.field_of(schema)
        if field is None:
            raise IllegalArgumentException(f"Unknown field: {self._name}")
        inner = None if struct is None else self._path.of_struct(struct, self._fill)
        return self.changed(record, field.schema, inner)


class ExtractFieldKey(ExtractField):
    of_key = True
