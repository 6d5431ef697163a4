"""Markers for enums and unions that all converters share: generalized.sum.type.support."""

from __future__ import annotations

from typing import Final

from ottla.connect.data import Schema, Type

SUM_TYPE_UNION: Final = "org.apache.kafka.connect.data.Union"
SUM_TYPE_ENUM: Final = "org.apache.kafka.connect.data.Enum"
SUM_TYPE_FIELD: Final = "connect_union_field_"


def enum_parameter_of(own: str, *, generalized: bool) -> str:
    """The parameter that marks an enum: the converter's own, or the shared one."""
    return SUM_TYPE_ENUM if generalized else own


def is_union_of(schema: Schema, own: str) -> bool:
    """True if a struct represents a union, by its name or by the shared parameter."""
    name = schema.name or ""
    return schema.type is Type.STRUCT and (
        name == own or name.startswith(f"{own}.") or SUM_TYPE_UNION in (schema.parameters or {})
    )
