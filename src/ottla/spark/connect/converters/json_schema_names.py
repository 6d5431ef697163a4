"""Words of Confluent's JsonSchemaConverter, and which schemas of Connect they mark."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.spark.connect.converters.sum_types import GENERAL_ENUM, GENERAL_UNION
from ottla.spark.connect.data import Schema, Type

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
        return GENERAL_ENUM if self.generalized else ENUM


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (
        schema.name == ONE_OF or GENERAL_UNION in (schema.parameters or {})
    )


def is_object_map(schema: Schema) -> bool:
    """Whether a map is an object in JSON; others are arrays of entries."""
    return schema.key_schema.type is Type.STRING and not schema.key_schema.optional
