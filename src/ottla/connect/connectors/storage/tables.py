"""Records -> Arrow tables: schemas become types, values become columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Struct, Type
from ottla.connect.errors import DataException

VALUE: Final = "value"
DECIMAL_DIGITS: Final = 38
DECIMAL_DIGITS_MAX: Final = 76
PRECISION: Final = "connect.decimal.precision"

PRIMITIVE: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
LOGICAL: Final = {
    DATE: pa.date32(),
    TIME: pa.time32("ms"),
    TIMESTAMP: pa.timestamp("ms", tz="UTC"),
}


def type_of(schema: Schema) -> pa.DataType:
    if schema.name == DECIMAL:
        return _decimal(schema)
    if schema.name in LOGICAL:
        return LOGICAL[schema.name]
    if schema.type is Type.ARRAY:
        return pa.list_(_field("element", schema.value_schema))
    if schema.type is Type.MAP:
        values = _field("value", schema.value_schema)
        return pa.map_(type_of(schema.key_schema), values)
    if schema.type is Type.STRUCT:
        return pa.struct([_field(field.name, field.schema) for field in schema.fields])
    return PRIMITIVE[schema.type]


def _field(name: str, schema: Schema) -> pa.Field:
    return pa.field(name, type_of(schema), nullable=schema.optional or schema.default is not None)


def _decimal(schema: Schema) -> pa.DataType:
    parameters = schema.parameters or {}
    scale = int(parameters.get("scale", 0))
    digits = int(parameters.get(PRECISION, DECIMAL_DIGITS))
    if digits <= DECIMAL_DIGITS and scale <= digits:
        return pa.decimal128(digits, scale)
    return pa.decimal256(min(max(digits, scale), DECIMAL_DIGITS_MAX), scale)


def table_of(schema: Schema | None, values: Sequence[Any]) -> pa.Table:
    """One row per value; values other than structs become the column `value`."""
    try:
        if schema is None:
            return _inferred(values)
        if schema.type is not Type.STRUCT:
            field = _field(VALUE, schema)
            return pa.Table.from_arrays(
                [pa.array([plain(schema, value) for value in values], field.type)],
                schema=pa.schema([field]),
            )
        return _columns(schema, values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise DataException(f"records do not fit into columns: {error}") from error


def _columns(schema: Schema, values: Sequence[Struct]) -> pa.Table:
    fields = [_field(field.name, field.schema) for field in schema.fields]
    columns = zip(*(struct.values_in_order for struct in values), strict=True) if fields else ()
    arrays = []
    for field, inner, column in zip(fields, schema.fields, columns, strict=True):
        if _is_nested(inner.schema) or inner.schema.default is not None:
            column = tuple(plain(inner.schema, value) for value in column)
        arrays.append(pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _is_nested(schema: Schema) -> bool:
    return schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT)


def plain(schema: Schema, value: Any) -> Any:
    """For pyarrow: structs as dicts, maps as lists of pairs, nulls replaced by defaults."""
    if value is None:
        value = schema.default
        if value is None:
            return None
    if schema.type is Type.STRUCT:
        return {
            field.name: plain(field.schema, item)
            for field, item in zip(schema.fields, value.values_in_order, strict=True)
        }
    if schema.type is Type.ARRAY:
        return [plain(schema.value_schema, item) for item in value]
    if schema.type is Type.MAP:
        return [
            (plain(schema.key_schema, key), plain(schema.value_schema, item))
            for key, item in value.items()
        ]
    return value


def _inferred(values: Sequence[Any]) -> pa.Table:
    """Without schemas: columns for all keys that occur, with inferred types."""
    if all(isinstance(value, dict) for value in values):
        found = pa.array(values)
        if not pa.types.is_struct(found.type) or not found.type.num_fields:
            raise DataException("objects without fields have no columns")
        return pa.Table.from_arrays(
            found.flatten(), names=[found.type.field(n).name for n in range(found.type.num_fields)]
        )
    return pa.table({VALUE: pa.array(values)})
