"""How enums and unions are marked in all converters alike: generalized.sum.type.support."""

from __future__ import annotations

from typing import Final

from ottla.connect.data import Schema, Type

GENERAL_UNION: Final = "org.apache.kafka.connect.data.Union"
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
GENERAL_FIELD: Final = "connect_union_field_"


def enum_parameter_of(own: str, *, generalized: bool) -> str:
    """The parameter that marks an enum: the converter's own word, or the one of all."""
    return GENERAL_ENUM if generalized else own


def is_union_of(schema: Schema, own: str) -> bool:
    """Whether a struct stands for a union: by its name, or by the parameter of all converters."""
    name = schema.name or ""
    return schema.type is Type.STRUCT and (
        name == own or name.startswith(f"{own}.") or GENERAL_UNION in (schema.parameters or {})
    )
