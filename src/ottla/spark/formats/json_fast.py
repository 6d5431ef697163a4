"""Many JSON objects at once, by Arrow's own reader: four times as fast as one by one.

It is for the regular case only. It knows names as they are spelled and types as they should be;
whatever is different, in one object, makes `read` give None, and all are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla.spark.formats import scalars
from ottla.spark.formats.arrow import arrow_type
from ottla.spark.formats.json_values import Names
from ottla.spark.sql.schema import Column
from ottla.spark.sql.types import Kind, SqlType

ROWS_MIN: Final = 512  # fewer are sooner read one by one
BYTES_MAX: Final = 1 << 30
WAIT_MAX: Final = 64

AS_WRITTEN: Final = frozenset(
    {Kind.BOOLEAN, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.STRING, Kind.DECIMAL}
)
WIRE: Final = {
    Kind.DATE: pa.int32(),
    Kind.TIME: pa.int64(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.BYTES: pa.string(),
}


class FastReader:
    """After each failure it lets batches pass before it tries again: twice as many each time."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self._names = Names([each.name for each in columns])
        self._folded = {each.name.upper() for each in columns}
        self._able = bool(columns) and all(_fits(each.type) for each in columns)
        self._able = self._able and len(self._folded) == len(columns)
        self._wait = 0
        self._pass_by = 0

    def read(self, data: pa.Array) -> list[pa.Array] | None:
        if not self._able or len(data) < ROWS_MIN or data.nbytes > BYTES_MAX:
            return None
        if self._pass_by:
            self._pass_by -= 1
            return None
        columns = self._try(data)
        self._wait = 0 if columns is not None else min(WAIT_MAX, self._wait * 2 + 1)
        self._pass_by = self._wait
        return columns

    def _try(self, data: pa.Array) -> list[pa.Array] | None:
        try:
            texts = data.cast(pa.string())  # the reader itself does not look for bad UTF-8
            if not pc.all(pc.starts_with(texts, "{")).as_py():
                return None
            spelled = self._spelled(data[0].as_py())
            table = _read(data, _wire_schema(self._columns, spelled))
            if table is None or self._is_spelled_otherwise(table.column_names, spelled):
                return None
            return [
                _finished(table.column(name).combine_chunks(), each.type)
                for name, each in zip(spelled, self._columns, strict=True)
            ]
        except (pa.ArrowException, ValueError):
            return None

    def _spelled(self, first: bytes) -> list[str]:
        found = self._names.of(tuple(orjson.loads(first)))
        return [name or column.name for name, column in zip(found, self._columns, strict=True)]

    def _is_spelled_otherwise(self, names: Sequence[str], spelled: Sequence[str]) -> bool:
        others = set(names) - set(spelled)
        return any(each.upper() in self._folded for each in others)


def _fits(type_: SqlType) -> bool:
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        return type_.element.kind in AS_WRITTEN
    return type_.kind in AS_WRITTEN or type_.kind in WIRE


def _wire_schema(columns: Sequence[Column], spelled: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            (name, WIRE.get(each.type.kind) or arrow_type(each.type))
            for name, each in zip(spelled, columns, strict=True)
        ]
    )


def _read(data: pa.Array, schema: pa.Schema) -> pa.Table | None:
    """One row for each value, or None: every value begins with a brace, so that none gives no
    row, and as many rows as values are one of each."""
    joined = b"\n".join(data.to_pylist())
    table = pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer", newlines_in_values=True
        ),
    )
    return table if table.num_rows == len(data) else None


def _finished(array: pa.Array, type_: SqlType) -> pa.Array:
    """Raises ValueError or ArrowInvalid for what is no value of this type."""
    if type_.kind is Kind.DOUBLE and pc.all(pc.is_finite(array)).as_py() is False:
        raise ValueError("NaN and Infinity are not JSON")
    if type_.kind is Kind.TIMESTAMP:
        return array.cast(pa.timestamp("ms", "UTC")).cast(arrow_type(type_))
    if type_.kind is Kind.DATE:
        return array.cast(pa.date32())
    if type_.kind is Kind.TIME:
        return _times(array)
    if type_.kind is Kind.BYTES:
        return pa.array([_bytes(each) for each in array.to_pylist()], pa.binary())
    return array


def _times(array: pa.Array) -> pa.Array:
    bounds = pc.min_max(array).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < scalars.DAY_MS:
        raise ValueError("not a time of day")
    return pc.multiply(array, 1_000_000).cast(pa.time64("ns"))


def _bytes(text: Any) -> bytes | None:
    return None if text is None else scalars.bytes_of(text)
