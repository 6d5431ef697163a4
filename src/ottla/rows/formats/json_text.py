"""Writes whole columns as JSON text, twenty times as fast as with a dict per row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats import scalars
from ottla.rows.formats.arrow import epoch_ms
from ottla.rows.types import SqlBaseType, SqlField, SqlType

ESCAPED: Final = r'["\\\x00-\x1f]'
WHOLE: Final = r"^-?[0-9]+$"
SMALL: Final = 1e-4
LARGE: Final = 1e10


def json_texts(column: pa.Array, type_: SqlType) -> pa.Array:
    """The JSON of each value; a null is `null`."""
    return pc.fill_null(_texts(column, type_), "null")


def objects(columns: Sequence[pa.Array], fields: Sequence[SqlField], count: int) -> pa.Array:
    """One object per row, with the columns as fields."""
    if not fields:
        return pa.array(["{}"] * count, pa.string())
    parts: list[Any] = []
    before = "{"
    for column, field in zip(columns, fields, strict=True):
        parts += [f"{before}{quoted(field.name)}:", json_texts(column, field.type)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}", "")


def quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _texts(column: pa.Array, type_: SqlType) -> pa.Array:
    if type_.kind is SqlBaseType.STRUCT:
        inner = objects(column.flatten(), type_.fields, len(column))
        return _only_where_valid(inner, column)
    if type_.kind is SqlBaseType.ARRAY:
        return _arrays(column, type_)
    if type_.kind is SqlBaseType.MAP:
        return _maps(column, type_)
    return WRITERS[type_.kind](column)


def _arrays(column: pa.Array, type_: SqlType) -> pa.Array:
    assert type_.element is not None
    elements = json_texts(column.flatten(), type_.element)
    return _listed(elements, column, "[", "]")


def _maps(column: pa.Array, type_: SqlType) -> pa.Array:
    assert type_.key is not None
    assert type_.element is not None
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists = column.cast(pa.list_(entry))
    keys, values = lists.flatten().flatten()
    pairs = pc.binary_join_element_wise(
        json_texts(keys, type_.key), json_texts(values, type_.element), ":"
    )
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
        escaped = [None if text is None else quoted(text) for text in column.to_pylist()]
        return pa.array(escaped, pa.string())
    return pc.binary_join_element_wise('"', column, '"', "")


def _doubles(column: pa.Array) -> pa.Array:
    """1.0 keeps its point; NaN and infinities are text, as Java writes them.

    Arrow's text of small and of large numbers is not that of `double_text` (0.00001, not 1e-05).
    The bytes of a key decide its partition, so they don't depend on how many rows are written.
    """
    plain = column.cast(pa.string())
    whole = pc.match_substring_regex(plain, WHOLE)
    if pc.any(whole).as_py():
        plain = pc.if_else(whole, pc.binary_join_element_wise(plain, ".0", ""), plain)
    sizes = np.abs(column.to_numpy(zero_copy_only=False))
    differs = ~((sizes >= SMALL) & (sizes < LARGE) | (sizes == 0))
    if not differs.any():
        return plain
    mask = pa.array(differs)
    texts = [double_text(number) for number in column.filter(mask).to_pylist()]
    return pc.replace_with_mask(plain, mask, pa.array(texts, pa.string()))


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
            [None if value is None else scalars.plain_decimal(value) for value in values],
            pa.string(),
        )
    return plain


def _bytes(column: pa.Array) -> pa.Array:
    values = column.to_pylist()
    return pa.array(
        [None if value is None else f'"{scalars.base64_of(value)}"' for value in values],
        pa.string(),
    )


def _timestamps(column: pa.Array) -> pa.Array:
    return epoch_ms(column).cast(pa.string())


def _dates(column: pa.Array) -> pa.Array:
    return column.cast(pa.int32()).cast(pa.string())


def _times(column: pa.Array) -> pa.Array:
    return pc.divide(column.cast(pa.int64()), 1_000_000).cast(pa.string())


WRITERS: Final[dict[SqlBaseType, Callable[[pa.Array], pa.Array]]] = {
    SqlBaseType.BOOLEAN: _plain,
    SqlBaseType.INTEGER: _plain,
    SqlBaseType.BIGINT: _plain,
    SqlBaseType.DOUBLE: _doubles,
    SqlBaseType.STRING: _strings,
    SqlBaseType.DECIMAL: _decimals,
    SqlBaseType.BYTES: _bytes,
    SqlBaseType.TIMESTAMP: _timestamps,
    SqlBaseType.DATE: _dates,
    SqlBaseType.TIME: _times,
}
