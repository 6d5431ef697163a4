"""Transform, the base class of single message transforms, and what Kafka's own share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.configurable import Configurable
from ottla.connect.data import ConnectRecord, Schema, Struct, Type
from ottla.connect.errors import DataException

R = TypeVar("R", bound=ConnectRecord)


class Transform(Configurable):
    """`apply` is called for each record; None drops the record."""

    def apply(self, record: R) -> R | None:
        raise NotImplementedError


class KeyOrValueTransform(Transform):
    """Works on the value: `Name$Value`, as in Kafka. A subclass for `Name$Key` sets `of_key`."""

    of_key: ClassVar[bool] = False

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        return record.key_schema if self.of_key else record.value_schema

    def value_of(self, record: ConnectRecord) -> Any:
        return record.key if self.of_key else record.value

    def changed(self, record: R, schema: Schema | None, value: Any) -> R:
        made = record.copied()
        if self.of_key:
            made.key_schema, made.key = schema, value
        else:
            made.value_schema, made.value = schema, value
        return made


class StructPlan:
    """Computed once per schema: the schema of the result, and defaults for null fields."""

    __slots__ = ("defaults", "schema")

    def __init__(self, schema: Schema, fill: Schema | None) -> None:
        self.schema = schema
        self.defaults = defaults_of(fill) if fill is not None else None


def defaults_of(schema: Schema) -> list[Any] | None:
    """The fields' defaults; None if no field has one."""
    defaults = [field.schema.default for field in schema.fields]
    return defaults if any(default is not None for default in defaults) else None


def filled(struct: Struct, defaults: list[Any] | None) -> list[Any]:
    """The struct's values in order, nulls replaced by defaults; a new list."""
    values = struct.values_in_order
    if defaults is None:
        return list(values)
    return [d if v is None else v for v, d in zip(values, defaults, strict=True)]


def basics_of(schema: Schema) -> dict[str, Any]:
    """The metadata that a derived schema keeps: all but `optional`."""
    return {
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": schema.parameters,
    }


def with_fields(schema: Schema, fields: list[tuple[str, Schema]]) -> Schema:
    return Schema(Type.STRUCT, fields=fields, **basics_of(schema))


def replace_null_config(config: ConfigDef) -> ConfigDef:
    return config.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        Importance.MEDIUM,
        "Whether a null field is replaced by its default.",
    )


# Requirements on the input of a transform.


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataException(
            f"Only Map objects supported in absence of schema for [{purpose}], "
            f"found: {class_name(value)}"
        )
    return value


def require_struct(value: Any, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataException(
            f"Only Struct objects supported for [{purpose}], found: {class_name(value)}"
        )
    return value


def class_name(value: Any) -> str:
    return "null" if value is None else type(value).__name__
