"""MaskField: replaces the values of fields."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import DataException
from ottla.connect.logical_types import EPOCH, EPOCH_DAY
from ottla.connect.schema import INTEGER_BITS, Type
from ottla.connect.schema_cache import SchemaCache
from ottla.connect.transforms.transform import (
    KeyOrValueTransform,
    R,
    class_name,
    defaults_of,
    filled,
    replace_null_config,
    require_map,
    require_struct,
)
from ottla.connect.validators import non_empty_string, some_distinct
from ottla.rows.java.text import float32


class MaskField(KeyOrValueTransform):
    """Replaces fields by 0, false or the empty string, or by a fixed replacement."""

    def config_def(self) -> ConfigDef:
        config = (
            ConfigDef()
            .define("fields", ConfigType.LIST, importance=Importance.HIGH,
                    doc="Fields to mask.", validator=some_distinct)
            .define("replacement", ConfigType.STRING, None, Importance.LOW,
                    "A replacement for numbers and strings.",
                    validator=non_empty_string)
        )  # fmt: skip
        return replace_null_config(config)

    def configure(self, props: Mapping[str, Any]) -> None:
        settings = self.config_def().parse(props)
        self._fields: list[str] = settings["fields"]
        self._replacement: str | None = settings["replacement"]
        self._fill = bool(settings["replace.null.with.default"])
        self._plans: SchemaCache[tuple[list[Any] | None, list[tuple[int, Type]]]] = SchemaCache()

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
