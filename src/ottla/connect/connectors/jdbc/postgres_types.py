"""PostgreSQL types <-> Connect schemas."""

from __future__ import annotations

import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from ottla.connect.connectors.jdbc.database import ColumnConversion, ColumnDefinition, Convert
from ottla.connect.connectors.jdbc.numeric_mapping import decimal_field
from ottla.connect.connectors.jdbc.times import instant_field, time_in_utc, with_zone
from ottla.connect.data import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    array_schema,
    date_schema,
    time_schema,
)
from ottla.connect.errors import ConnectException, DataException

POSTGRES_TYPES: Final = {
    "int2": Type.INT16,
    "int4": Type.INT32,
    "int8": Type.INT64,
    "oid": Type.INT64,
    "float4": Type.FLOAT32,
    "float8": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "bytea": Type.BYTES,
}
# Types that Connect lacks are read as text, instead of psycopg's Python classes.
TEXT_TYPES: Final = (
    *("json", "jsonb", "uuid", "interval", "inet", "cidr", "macaddr", "xml", "money"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange"),
    *("datemultirange", "tsmultirange", "tstzmultirange"),
)
ARRAY: Final = "[]"
DDL: Final = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INTEGER",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
}
LOGICAL_DDL: Final = {
    DECIMAL: "DECIMAL",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}


def field_of(column: ColumnDefinition, mapping: ColumnConversion) -> tuple[Schema, Convert | None]:
    """Every type can be copied: those that Connect lacks are copied as text."""
    if column.type.endswith(ARRAY):
        return _array(column, mapping)
    primitive = POSTGRES_TYPES.get(column.type)
    if primitive is not None:
        return Schema(primitive, optional=column.nullable), None
    if column.type == "numeric":
        return decimal_field(column, mapping.numeric)
    if column.type == "date":
        return date_schema(optional=column.nullable), None
    if column.type == "time":
        return time_schema(optional=column.nullable), None
    if column.type == "timetz":
        return time_schema(optional=column.nullable), time_in_utc
    if column.type == "timestamp":
        zone = with_zone(mapping.timezone)
        return instant_field(column, mapping.granularity, zone)
    if column.type == "timestamptz":
        return instant_field(column, mapping.granularity, None)
    return Schema(Type.STRING, optional=column.nullable), None


def _array(column: ColumnDefinition, mapping: ColumnConversion) -> tuple[Schema, Convert | None]:
    """Arrays of one dimension; PostgreSQL's type does not tell the number of dimensions."""
    element = ColumnDefinition(
        column.name, column.type.removesuffix(ARRAY), column.precision, column.scale, True
    )
    schema, convert = field_of(element, mapping)

    def values(values_in: list[Any]) -> list[Any]:
        if any(isinstance(item, list) for item in values_in):
            raise DataException(
                f"column {column.name}: arrays of several dimensions cannot be copied"
            )
        if convert is None:
            return values_in
        return [None if item is None else convert(item) for item in values_in]

    return array_schema(schema, optional=column.nullable), values


def type_of(schema: Schema) -> str:
    """The column type for CREATE TABLE and ALTER TABLE."""
    if schema.name in LOGICAL_DDL:
        return LOGICAL_DDL[schema.name]
    if schema.type is Type.ARRAY:
        return type_of(schema.value_schema) + ARRAY
    found = DDL.get(schema.type)
    if found is None:
        raise ConnectException(
            f"a field of type {schema.type} has no column type in PostgreSQL:"
            " flatten it (transforms.Flatten) or leave it out (fields.whitelist)"
        )
    return found


def binder_of(schema: Schema, timezone: str) -> Convert | None:
    """The conversion of a value to a parameter."""
    if schema.name == TIMESTAMP:
        return _timestamp_in(timezone)
    if schema.type is Type.STRING:
        return _without_nul
    if schema.type in (Type.MAP, Type.STRUCT):
        raise ConnectException(
            f"a field of type {schema.type} can't be written to PostgreSQL:"
            " flatten it (transforms.Flatten) or leave it out (fields.whitelist)"
        )
    return None


def _timestamp_in(timezone: str) -> Convert:
    zone = datetime.UTC if timezone == "UTC" else ZoneInfo(timezone)

    def bound(value: datetime.datetime) -> datetime.datetime:
        return value.astimezone(zone)

    return bound


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise DataException("PostgreSQL's text cannot contain the character NUL (\\u0000)")
    return value
