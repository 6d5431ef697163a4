"""Types and values of the SQL as Arrow has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.schema import DELETED, PSEUDO_COLUMNS, WINDOW_BOUNDS, Layout
from ottla.rows.types import Kind, SqlType

PLAIN: Final = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.TIME: pa.time64("ns"),  # the one that Spark takes for its TIME
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
}


def arrow_type(type_: SqlType) -> pa.DataType:
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        return pa.list_(pa.field("element", arrow_type(type_.element)))
    if type_.kind is Kind.MAP:
        assert type_.key is not None
        assert type_.element is not None
        return pa.map_(arrow_type(type_.key), arrow_type(type_.element))
    if type_.kind is Kind.STRUCT:
        return pa.struct([pa.field(each.name, arrow_type(each.type)) for each in type_.fields])
    return PLAIN[type_.kind]


def arrow_schema(layout: Layout) -> pa.Schema:
    """The columns of Layout.spark_schema(), in that order."""
    fields = [pa.field(each.name, arrow_type(each.type)) for each in layout.schema.columns]
    hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if layout.windowed else {})}
    fields += [pa.field(name, arrow_type(each)) for name, each in hidden.items()]
    return pa.schema([*fields, pa.field(DELETED, pa.bool_())])


def has_map(type_: SqlType) -> bool:
    inner = [each for each in (type_.key, type_.element) if each is not None]
    inner += [each.type for each in type_.fields]
    return type_.kind is Kind.MAP or any(has_map(each) for each in inner)


def python_values(array: pa.Array, type_: SqlType) -> list[Any]:
    """As types.py says that rows have them: Arrow gives a MAP as a list of pairs."""
    values: list[Any] = array.to_pylist()
    if not has_map(type_):
        return values
    mend = _mender(type_)
    return [mend(each) for each in values]


def arrow_array(values: list[Any], type_: SqlType) -> pa.Array:
    """The other way round: dicts of a MAP become pairs, which every version of Arrow takes."""
    if has_map(type_):
        pairs = _pairer(type_)
        values = [pairs(each) for each in values]
    return pa.array(values, arrow_type(type_))


def _mender(type_: SqlType) -> Callable[[Any], Any]:
    return _walker(type_, lambda value: value)


def _pairer(type_: SqlType) -> Callable[[Any], Any]:
    return _walker(type_, lambda value: list(value.items()))


def _walker(type_: SqlType, pairs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that rebuilds a value of this type, with its MAPs as `pairs` makes them."""
    if not has_map(type_):
        return lambda value: value
    if type_.kind is Kind.STRUCT:
        fields = [(each.name, _walker(each.type, pairs)) for each in type_.fields]
        return lambda value: (
            None if value is None else {name: walk(value.get(name)) for name, walk in fields}
        )
    assert type_.element is not None
    inner = _walker(type_.element, pairs)
    if type_.kind is Kind.ARRAY:
        return lambda value: None if value is None else [inner(each) for each in value]
    return lambda value: (
        None if value is None else pairs({name: inner(each) for name, each in dict(value).items()})
    )


def spread(array: pa.Array, valid: np.ndarray[Any, Any]) -> pa.Array:
    """The values of `array` where `valid` is true, in order, and null elsewhere."""
    positions = np.cumsum(valid) - 1
    return array.take(pa.array(positions, pa.int64(), mask=~valid))


def nulls(type_: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, type_)


def epoch_ms(timestamps: pa.Array) -> pa.Array:
    """Microseconds to milliseconds, downwards also before 1970."""
    micros = timestamps.cast(pa.int64())
    valid = micros.is_valid().to_numpy(zero_copy_only=False)
    millis = pc.fill_null(micros, 0).to_numpy() // 1000
    return pa.array(millis, pa.int64(), mask=~valid)
