"""JsonSchemaConverter's settings, and Confluent's markers for unions and enums."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.connect.converters.sum_types import enum_parameter_of, is_union_of
from ottla.connect.data import Schema, Type

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
NULL_SYMBOL: Final = "<NULL>"


class JsonSchemaSettings(NamedTuple):
    additional_properties: bool = True
    optional_if_not_required: bool = False
    numeric_decimals: bool = False
    flatten_singletons: bool = True
    generalized: bool = False
    ignore_defaults: bool = False

    @property
    def enum_parameter(self) -> str:
        return enum_parameter_of(ENUM, generalized=self.generalized)


def is_union(schema: Schema) -> bool:
    return is_union_of(schema, ONE_OF)


def is_object_map(schema: Schema) -> bool:
    """True if the map becomes a JSON object; other maps become arrays of entries."""
    return schema.key_schema.type is Type.STRING and not schema.key_schema.optional
