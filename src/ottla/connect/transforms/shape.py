"""The shape of a key or value: ExtractField, HoistField, Flatten; and Filter: no record at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct, Type, struct_schema
from ottla.connect.errors import DataException, IllegalArgumentException
from ottla.connect.schema import validate_value
from ottla.connect.schema_cache import Cache
from ottla.connect.transforms.fields import FieldPath, field_syntax_config
from ottla.connect.transforms.transform import (
    HalfTransform,
    R,
    Transform,
    basics_of,
    class_name,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)


class Filter(Transform):
    """Leaves every record out: with a predicate, those that it is true for."""

    def apply(self, record: R) -> R | None:
        return None


class ExtractField(HalfTransform):
    def config_def(self) -> ConfigDef:
        config = ConfigDef().define("field", ConfigType.STRING, doc="The field to take out.")
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


class ExtractFieldValue(ExtractField):
    pass


class HoistField(HalfTransform):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "field", ConfigType.STRING, doc="The one field of the struct or map that is made."
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._name = str(self.config_def().parse(props)["field"])
        self._schemas: Cache[Schema] = Cache()

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


class HoistFieldValue(HoistField):
    pass


class Flatten(HalfTransform):
    def config_def(self) -> ConfigDef:
        return ConfigDef().define(
            "delimiter",
            ConfigType.STRING,
            ".",
            Importance.MEDIUM,
            "What stands between the names of the fields on the way down.",
        )

    def configure(self, props: Mapping[str, Any]) -> None:
        self._delimiter = str(self.config_def().parse(props)["delimiter"])
        self._schemas: Cache[Schema] = Cache()

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
        for key, each in value.items():
            name = self._name(prefix, key)
            if isinstance(each, dict):
                self._flatten_map(each, name, flat)
            elif isinstance(each, Struct):
                raise DataException(
                    f"Flatten transformation does not support {class_name(each)} for record "
                    f"without schemas (for field {name})."
                )
            else:
                flat[name] = each

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


class FlattenValue(Flatten):
    pass
