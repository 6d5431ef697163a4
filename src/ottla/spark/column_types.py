"""The SQL types of Spark's columns, from their Arrow types."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ottla.rows.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    SqlBaseType,
    SqlField,
    SqlType,
    array,
    decimal,
    map_of,
)

SCALARS: Final = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_int64, BIGINT),
    (pa.types.is_signed_integer, INTEGER),
    (pa.types.is_floating, DOUBLE),
    (pa.types.is_string, STRING),
    (pa.types.is_large_string, STRING),
    (pa.types.is_binary, BYTES),
    (pa.types.is_large_binary, BYTES),
    (pa.types.is_date32, DATE),
    (pa.types.is_timestamp, TIMESTAMP),
    (pa.types.is_time64, TIME),
    (pa.types.is_null, STRING),
)


def column_type(type_: pa.DataType) -> SqlType:
    """Raises ValueError for a type that no format supports."""
    for fits, found in SCALARS:
        if fits(type_):
            return found
    if pa.types.is_decimal(type_):
        return decimal(type_.precision, type_.scale)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return array(column_type(type_.value_type))
    if pa.types.is_map(type_):
        keys = column_type(type_.key_type)
        if keys.kind is not SqlBaseType.STRING:
            raise ValueError(f"a map with keys of type {keys}: keys must be strings")
        return map_of(keys, column_type(type_.item_type))
    if pa.types.is_struct(type_):
        fields = tuple(SqlField(field.name, column_type(field.type)) for field in type_)
        return SqlType(SqlBaseType.STRUCT, fields=fields)
    raise ValueError(f"a column of type {type_} can't be represented in a schema")
