"""SQLite's declared types <-> Connect schemas.

A SQLite column may hold values of any type; a value that does not match the declared type raises,
with the column's name. INTEGER has 64 bits, as in SQLite.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any, Final

from ottla.connect.connectors.jdbc.database import ColumnConversion, ColumnDefinition, Convert
from ottla.connect.connectors.jdbc.numeric_mapping import decimal_field
from ottla.connect.connectors.jdbc.times import instant_field, micros_of, moment_of
from ottla.connect.data import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    date_schema,
    time_schema,
)
from ottla.connect.errors import ConnectException, DataException

SQLITE_INTEGER_TYPES: Final = {
    "tinyint": Type.INT8,
    "smallint": Type.INT16,
    "int2": Type.INT16,
    "mediumint": Type.INT32,
}
DDL: Final = {
    Type.INT8: "TINYINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}
LOGICAL_DDL: Final = {
    DECIMAL: "NUMERIC",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}


def field_of(
    column: ColumnDefinition, mapping: ColumnConversion
) -> tuple[Schema, Convert | None] | None:
    kind, optional = column.type, column.nullable
    if kind in SQLITE_INTEGER_TYPES:
        return Schema(SQLITE_INTEGER_TYPES[kind], optional=optional), _checked(column, int)
    if kind in ("boolean", "bool"):
        return Schema(Type.BOOLEAN, optional=optional), bool
    if kind == "date":
        return date_schema(optional=optional), _moment(column, datetime.datetime.date)
    if kind == "time":
        return time_schema(optional=optional), _time
    if kind in ("timestamp", "datetime"):
        schema, convert = instant_field(column, mapping.granularity, None)
        return schema, _moment(column, convert or _same)
    if "int" in kind:
        return Schema(Type.INT64, optional=optional), _checked(column, int)
    if any(word in kind for word in ("char", "clob", "text", "json", "uuid")):
        return Schema(Type.STRING, optional=optional), _checked(column, str)
    if "blob" in kind or "binary" in kind:
        return Schema(Type.BYTES, optional=optional), _checked(column, bytes)
    if any(word in kind for word in ("real", "floa", "doub")):
        return Schema(Type.FLOAT64, optional=optional), float
    if kind in ("numeric", "decimal"):
        return decimal_field(column, mapping.numeric)
    return None


def _same(value: Any) -> Any:
    return value


def _checked(column: ColumnDefinition, kind: type) -> Convert:
    def checked(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        raise DataException(f"column {column.name} is declared {column.type}, and holds {value!r}")

    return checked


def _moment(column: ColumnDefinition, convert: Convert) -> Convert:
    def moment(value: Any) -> Any:
        micros = micros_of_stored(value)
        if micros is None:
            raise DataException(
                f"column {column.name} is declared {column.type}, and holds {value!r}"
            )
        return convert(moment_of(micros))

    return moment


def _time(value: Any) -> datetime.time:
    return datetime.time.fromisoformat(value)


def micros_of_stored(value: Any) -> int | None:
    """A stored timestamp: ISO text (UTC by default), or milliseconds since the epoch."""
    if isinstance(value, int | float):
        return int(value * 1000)
    try:
        moment = datetime.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return micros_of(moment)


def type_of(schema: Schema) -> str:
    found = LOGICAL_DDL.get(schema.name or "") or DDL.get(schema.type)
    if found is None:
        raise ConnectException(
            f"a field of type {schema.type} has no column type in SQLite:"
            " flatten it (transforms.Flatten) or leave it out (fields.whitelist)"
        )
    return found


def binder_of(schema: Schema) -> Convert | None:
    if schema.name in _TEXTS:
        return _TEXTS[schema.name]
    if schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT):
        type_of(schema)
    return None


def _timestamp_text(value: datetime.datetime) -> str:
    return f"{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _iso(value: datetime.date | datetime.time) -> str:
    return value.isoformat()


def _number_text(value: decimal.Decimal) -> str:
    return format(value, "f")


_TEXTS: Final[dict[str | None, Convert]] = {
    TIMESTAMP: _timestamp_text,
    DATE: _iso,
    TIME: _iso,
    DECIMAL: _number_text,
}
