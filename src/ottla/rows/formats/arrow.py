"""SQL types and values in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.schema import DELETED, PSEUDO_COLUMNS, WINDOW_BOUNDS, Layout
from ottla.rows.types import SqlBaseType, SqlType

PLAIN: Final = {
    SqlBaseType.BOOLEAN: pa.bool_(),
    SqlBaseType.INTEGER: pa.int32(),
    SqlBaseType.BIGINT: pa.int64(),
    SqlBaseType.DOUBLE: pa.float64(),
    SqlBaseType.STRING: pa.string(),
    SqlBaseType.BYTES: pa.binary(),
    SqlBaseType.TIME: pa.time64("ns"),  # the type that Spark maps to TIME
    SqlBaseType.DATE: pa.date32(),
    SqlBaseType.TIMESTAMP: pa.timestamp("us", "UTC"),
}


def arrow_type(type_: SqlType) -> pa.DataType:
    if type_.kind is SqlBaseType.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        return pa.list_(pa.field("element", arrow_type(type_.element)))
    if type_.kind is SqlBaseType.MAP:
        assert type_.key is not None
        assert type_.element is not None
        return pa.map_(arrow_type(type_.key), arrow_type(type_.element))
    if type_.kind is SqlBaseType.STRUCT:
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in type_.fields])
    return PLAIN[type_.kind]


def arrow_schema(layout: Layout) -> pa.Schema:
    """The columns of Layout.spark_schema(), in that order."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in layout.schema.columns]
    hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if layout.windowed else {})}
    fields += [pa.field(name, arrow_type(type_)) for name, type_ in hidden.items()]
    return pa.schema([*fields, pa.field(DELETED, pa.bool_())])


def has_map(type_: SqlType) -> bool:
    inner = [part for part in (type_.key, type_.element) if part is not None]
    inner += [field.type for field in type_.fields]
    return type_.kind is SqlBaseType.MAP or any(has_map(part) for part in inner)


def python_values(array: pa.Array, type_: SqlType) -> list[Any]:
    """Arrow values -> Python values (types.py): Arrow returns a MAP as a list of pairs."""
    values: list[Any] = array.to_pylist()
    if not has_map(type_):
        return values
    mend = _mender(type_)
    return [mend(value) for value in values]


def arrow_array(values: list[Any], type_: SqlType) -> pa.Array:
    """Python values -> Arrow: a MAP's dict becomes pairs, which every version of Arrow accepts."""
    if has_map(type_):
        pairs = _pairer(type_)
        values = [pairs(value) for value in values]
    return pa.array(values, arrow_type(type_))


def _mender(type_: SqlType) -> Callable[[Any], Any]:
    return _walker(type_, lambda value: value)


def _pairer(type_: SqlType) -> Callable[[Any], Any]:
    return _walker(type_, lambda value: list(value.items()))


def _walker(type_: SqlType, pairs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that rebuilds a value of this type and converts its MAPs with `pairs`."""
    if not has_map(type_):
        return lambda value: value
    if type_.kind is SqlBaseType.STRUCT:
        fields = [(field.name, _walker(field.type, pairs)) for field in type_.fields]
        return lambda value: (
            None if value is None else {name: walk(value.get(name)) for name, walk in fields}
        )
    assert type_.element is not None
    inner = _walker(type_.element, pairs)
    if type_.kind is SqlBaseType.ARRAY:
        return lambda value: None if value is None else [inner(element) for element in value]
    return lambda value: (
        None
        if value is None
        else pairs({name: inner(element) for name, element in dict(value).items()})
    )


def spread(array: pa.Array, valid: np.ndarray[Any, Any]) -> pa.Array:
    """The values of `array` where `valid` is true, in order, and null elsewhere."""
    positions = np.cumsum(valid) - 1
    return array.take(pa.array(positions, pa.int64(), mask=~valid))


def nulls(type_: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, type_)


def epoch_ms(timestamps: pa.Array) -> pa.Array:
    """Microseconds to milliseconds, rounded down also before 1970."""
    micros = timestamps.cast(pa.int64())
    valid = micros.is_valid().to_numpy(zero_copy_only=False)
    millis = pc.fill_null(micros, 0).to_numpy() // 1000
    return pa.array(millis, pa.int64(), mask=~valid)
