"""How enums and unions are marked in all converters alike: generalized.sum.type.support."""

from __future__ import annotations

from typing import Final

GENERAL_UNION: Final = "org.apache.kafka.connect.data.Union"
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
GENERAL_FIELD: Final = "connect_union_field_"
