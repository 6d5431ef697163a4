"""Fields of a key or value changed in place: MaskField, ReplaceField, SetSchemaMetadata."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.logical import EPOCH, EPOCH_DAY
from ottla.connect.schema import INTEGER_BITS, Type
from ottla.connect.schema_cache import Cache
from ottla.connect.transforms.transform import (
    HalfTransform,
    Plan,
    R,
    class_name,
    defaults_of,
    filled,
    replace_null_config,
    require_map,
    require_struct,
    with_fields,
)
from ottla.connect.validators import no_duplicates, non_empty_string, some_distinct
from ottla.rows.java.text import float32


class MaskField(HalfTransform):
    """Fields are blanked: 0, false, the empty string; or a text of one's own instead."""

    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("fields", ConfigType.LIST, importance=Importance.HIGH,
                    doc="Fields to blank.", validator=some_distinct)
            .define("replacement", ConfigType.STRING, None, Importance.LOW,
                    "What stands there instead, for numbers and strings.",
                    validator=non_empty_string)
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._fields: list[str] = settings["fields"]
        self._replacement: str | None = settings["replacement"]
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: Cache[tuple[list[Any] | None, list[tuple[int, Type]]]] = Cache()

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            updated = dict(require_map(value, "mask fields"))
            for name in self._fields:
                updated[name] = self._masked(updated.get(name), None)
            return self.changed(record, None, updated)
        struct = require_struct(value, "mask fields")
        schema = struct.schema
        defaults, masked = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        values = filled(struct, defaults)
        for index, type in masked:
            values[index] = self._masked(values[index], type)
        return self.changed(record, schema, Struct.of(schema, values))

    def _plan(self, schema: Schema) -> tuple[list[Any] | None, list[tuple[int, Type]]]:
        masked = [(f.index, f.schema.type) for f in schema.fields if f.name in self._fields]
        return defaults_of(schema) if self._fill else None, masked

    def _masked(self, value: Any, type: Type | None) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return blank(value)
        return replaced(value, self._replacement, type)


def blank(value: Any) -> Any:
    if isinstance(value, bool | int | float | str | list | dict):
        return value.__class__()
    if isinstance(value, Decimal):
        return value.copy_abs() * 0  # of the same scale
    if isinstance(value, datetime.datetime):
        return EPOCH
    if isinstance(value, datetime.date):
        return EPOCH_DAY
    if isinstance(value, datetime.time):
        return datetime.time()
    raise DataException(f"Cannot mask value of type: {class_name(value)}")


def replaced(value: Any, replacement: str, type: Type | None) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataException(
            f"Cannot mask value of type {class_name(value)} with custom replacement."
        )
    try:
        number = Decimal(replacement)
    except InvalidOperation:
        raise DataException(f"Unable to convert {replacement} (String) to a number") from None
    if isinstance(value, float):
        return float32(float(number)) if type is Type.FLOAT32 else float(number)
    if isinstance(value, Decimal):
        return number
    bits = INTEGER_BITS.get(type or Type.INT64, 64)
    return (int(number) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


class MaskFieldKey(MaskField):
    of_key = True


class MaskFieldValue(MaskField):
    pass


def parse_renames(mappings: list[str]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.split(":")
        if len(parts) != 2 or not parts[1]:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


class ReplaceField(HalfTransform):
    """Fields are left out or renamed."""

    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("exclude", ConfigType.LIST, "", validator=no_duplicates,
                    doc="Fields to leave out, also if they stand in include.")
            .define("include", ConfigType.LIST, "", validator=no_duplicates,
                    doc="The only fields to keep; empty for all.")
            .define("renames", ConfigType.LIST, "", doc="New names: old:new,other:another.",
                    validator=lambda name, value: (parse_renames(value), None)[1])
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._exclude = frozenset(settings["exclude"])
        self._include = frozenset(settings["include"])
        self._renames = parse_renames(settings["renames"])
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: Cache[tuple[Plan, list[int]]] = Cache()

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def apply(self, record: R) -> R | None:
        schema, value = self.schema_of(record), self.value_of(record)
        if value is None:
            return record
        if schema is None:
            renames, mapping = self._renames, require_map(value, "field replacement")
            updated = {renames.get(n, n): v for n, v in mapping.items() if self._keeps(n)}
            return self.changed(record, None, updated)
        struct = require_struct(value, "field replacement")
        schema = struct.schema
        plan, kept = self._plans.get(schema) or self._plans.put(schema, self._plan(schema))
        values = struct.values_in_order if plan.defaults is None else filled(struct, plan.defaults)
        made = Struct.of(plan.schema, [values[index] for index in kept])
        return self.changed(record, plan.schema, made)

    def _plan(self, schema: Schema) -> tuple[Plan, list[int]]:
        kept = [field for field in schema.fields if self._keeps(field.name)]
        fields = [(self._renames.get(field.name, field.name), field.schema) for field in kept]
        plan = Plan(with_fields(schema, fields), schema if self._fill else None)
        return plan, [field.index for field in kept]


class ReplaceFieldKey(ReplaceField):
    of_key = True


class ReplaceFieldValue(ReplaceField):
    pass


class SetSchemaMetadata(HalfTransform):
    """Name and version of the schema."""

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
        self._schemas: Cache[Schema] = Cache()

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


class SetSchemaMetadataValue(SetSchemaMetadata):
    pass
