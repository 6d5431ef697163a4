"""Columns as JSON text, whole columns at a time: twenty times as fast as a dict for each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats import scalars
from ottla.rows.formats.arrow import epoch_ms
from ottla.rows.types import Field, Kind, SqlType

ESCAPED: Final = r'["\\\x00-\x1f]'
WHOLE: Final = r"^-?[0-9]+$"


def texts(column: pa.Array, type_: SqlType) -> pa.Array:
    """The JSON of each value; a null is `null`."""
    return pc.fill_null(_texts(column, type_), "null")


def objects(columns: Sequence[pa.Array], fields: Sequence[Field], count: int) -> pa.Array:
    """The columns of each row as the fields of an object."""
    if not fields:
        return pa.array(["{}"] * count, pa.string())
    parts: list[Any] = []
    before = "{"
    for column, field in zip(columns, fields, strict=True):
        parts += [f"{before}{quoted(field.name)}:", texts(column, field.type)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}", "")


def quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _texts(column: pa.Array, type_: SqlType) -> pa.Array:
    if type_.kind is Kind.STRUCT:
        inner = objects(column.flatten(), type_.fields, len(column))
        return _only_where_valid(inner, column)
    if type_.kind is Kind.ARRAY:
        return _arrays(column, type_)
    if type_.kind is Kind.MAP:
        return _maps(column, type_)
    return WRITERS[type_.kind](column)


def _arrays(column: pa.Array, type_: SqlType) -> pa.Array:
    assert type_.element is not None
    elements = texts(column.flatten(), type_.element)
    return _listed(elements, column, "[", "]")


def _maps(column: pa.Array, type_: SqlType) -> pa.Array:
    assert type_.key is not None
    assert type_.element is not None
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists = column.cast(pa.list_(entry))
    keys, values = lists.flatten().flatten()
    pairs = pc.binary_join_element_wise(texts(keys, type_.key), texts(values, type_.element), ":")
    return _listed(pairs, lists, "{", "}")


def _listed(elements: pa.Array, column: pa.Array, begin: str, end: str) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    return _only_where_valid(pc.binary_join_element_wise(begin, joined, end, ""), column)


def _only_where_valid(inner: pa.Array, column: pa.Array) -> pa.Array:
    if not column.null_count:
        return inner
    return pc.if_else(column.is_valid(), inner, None)


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _strings(column: pa.Array) -> pa.Array:
    marked = pc.match_substring_regex(column, ESCAPED)
    if pc.any(marked).as_py():
        escaped = [None if each is None else quoted(each) for each in column.to_pylist()]
        return pa.array(escaped, pa.string())
    return pc.binary_join_element_wise('"', column, '"', "")


def _doubles(column: pa.Array) -> pa.Array:
    """1.0 stays a number with a point; what JSON has no number for is text, as Java writes it."""
    if pc.any(pc.invert(pc.is_finite(column))).as_py():
        return pa.array([double_text(each) for each in column.to_pylist()], pa.string())
    plain = column.cast(pa.string())
    whole = pc.match_substring_regex(plain, WHOLE)
    if not pc.any(whole).as_py():
        return plain
    return pc.if_else(whole, pc.binary_join_element_wise(plain, ".0", ""), plain)


def double_text(number: float | None) -> str | None:
    if number is None:
        return None
    if math.isfinite(number):
        return repr(number)
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def _decimals(column: pa.Array) -> pa.Array:
    plain = column.cast(pa.string())
    if pc.any(pc.match_substring(plain, "E")).as_py():
        values = column.to_pylist()
        return pa.array(
            [None if each is None else scalars.plain_decimal(each) for each in values], pa.string()
        )
    return plain


def _bytes(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array(
        [None if each is None else f'"{scalars.base64_of(each)}"' for each in values], pa.string()
    )


def _timestamps(column: pa.Array) -> pa.Array:
    return epoch_ms(column).cast(pa.string())


def _dates(column: pa.Array) -> pa.Array:
    return column.cast(pa.int32()).cast(pa.string())


def _times(column: pa.Array) -> pa.Array:
    return pc.divide(column.cast(pa.int64()), 1_000_000).cast(pa.string())


WRITERS: Final[dict[Kind, Callable[[pa.Array], pa.Array]]] = {
    Kind.BOOLEAN: _plain,
    Kind.INTEGER: _plain,
    Kind.BIGINT: _plain,
    Kind.DOUBLE: _doubles,
    Kind.STRING: _strings,
    Kind.DECIMAL: _decimals,
    Kind.BYTES: _bytes,
    Kind.TIMESTAMP: _timestamps,
    Kind.DATE: _dates,
    Kind.TIME: _times,
}
