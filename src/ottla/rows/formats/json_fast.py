"""Reads many JSON objects with Arrow's reader, several times as fast as one by one.

It handles only the regular case: exact names and types. Any deviation in one object makes `read`
return None, and all objects are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ottla.rows.formats import scalars
from ottla.rows.formats.arrow import arrow_type, has_map
from ottla.rows.schema import Column
from ottla.rows.types import SqlBaseType, SqlField, SqlType

ROWS_MIN: Final = 512  # fewer rows are faster one by one
BYTES_MAX: Final = 1 << 30
WAIT_MAX: Final = 64
SAMPLES: Final = 8

WIRE: Final = {
    SqlBaseType.DATE: pa.int32(),
    SqlBaseType.TIME: pa.int64(),
    SqlBaseType.TIMESTAMP: pa.int64(),
    SqlBaseType.BYTES: pa.string(),
}


class IrregularJsonError(ValueError):
    """The data is not regular."""


class FastJsonReader:
    """After each failure it skips batches before it tries again: twice as many each time."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._fields = tuple(SqlField(column.name, column.type) for column in columns)
        self._able = bool(columns) and not any(has_map(column.type) for column in columns)
        self._able = self._able and _are_distinct(self._fields)
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
            texts = data.cast(pa.string())  # the reader itself does not validate UTF-8
            if not pc.all(pc.starts_with(texts, "{")).as_py():
                return None
            samples = [orjson.loads(payload) for payload in data[:SAMPLES].to_pylist()]
            wire = pa.schema(_wire_fields(self._fields, samples))
            table = _read(data, wire)
            found = dict(zip(table.column_names, table.columns, strict=True))
            return [
                _finished(_the_one(found, field.name).combine_chunks(), field.type)
                for field in self._fields
            ]
        except (pa.ArrowException, ValueError):
            return None


def _are_distinct(fields: Sequence[SqlField]) -> bool:
    """False if two fields differ only in case, which this reader does not support."""
    inner = [field.type for field in fields]
    inner += [part.element for part in inner if part.element is not None]
    distinct = len({field.name.upper() for field in fields}) == len(fields)
    return distinct and all(_are_distinct(part.fields) for part in inner if part.fields)


def _wire_fields(fields: Sequence[SqlField], samples: Sequence[Any]) -> list[pa.Field]:
    """The fields for the reader, with the names as spelled in the first objects."""
    spelled = {name.upper(): name for sample in reversed(samples) for name in sample}
    return [
        pa.field(
            name := spelled.get(field.name.upper(), field.name),
            _wire_type(field.type, [sample.get(name) for sample in samples]),
        )
        for field in fields
    ]


def _wire_type(type_: SqlType, samples: Sequence[Any]) -> pa.DataType:
    if type_.kind is SqlBaseType.STRUCT:
        objects = [sample for sample in samples if isinstance(sample, dict)]
        return pa.struct(_wire_fields(type_.fields, objects))
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        elements = [value for sample in samples if isinstance(sample, list) for value in sample[:1]]
        return pa.list_(pa.field("element", _wire_type(type_.element, elements)))
    return WIRE.get(type_.kind) or arrow_type(type_)


def _read(data: pa.Array, schema: pa.Schema) -> pa.Table:
    """Every value begins with a brace, so none gives no row; so if there are as many rows as
    values, each value gives one."""
    all_of_them = pa.ListArray.from_arrays(pa.array([0, len(data)], pa.int32()), data)
    joined = pc.binary_join(all_of_them, b"\n")[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(use_threads=False, block_size=joined.size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer", newlines_in_values=True
        ),
    )
    if table.num_rows != len(data):
        raise IrregularJsonError
    return table


def _the_one(found: dict[str, Any], name: str) -> Any:
    """The column of this name; raises IrregularJsonError if its spelling varies."""
    one, *others = [spelled for spelled in found if spelled.upper() == name.upper()]
    if others:
        raise IrregularJsonError
    return found[one]


def _finished(array: pa.Array, type_: SqlType) -> pa.Array:
    """Raises ValueError or ArrowInvalid for values that are not of this type."""
    match type_.kind:
        case SqlBaseType.DOUBLE if pc.all(pc.is_finite(array)).as_py() is False:
            raise IrregularJsonError  # NaN and Infinity are not JSON
        case SqlBaseType.TIMESTAMP:
            _check(array, scalars.TIMESTAMP_MIN_MS, scalars.TIMESTAMP_MAX_MS)
            return array.cast(pa.timestamp("ms", "UTC")).cast(arrow_type(type_))
        case SqlBaseType.DATE:
            _check(array, scalars.DATE_MIN, scalars.DATE_MAX)
            return array.cast(pa.date32())
        case SqlBaseType.TIME:
            _check(array, 0, scalars.DAY_MS - 1)
            return pc.multiply(array, 1_000_000).cast(pa.time64("ns"))
        case SqlBaseType.BYTES:
            return pa.array([_bytes(text) for text in array.to_pylist()], pa.binary())
        case SqlBaseType.STRUCT:
            return _struct(array, type_)
        case SqlBaseType.ARRAY:
            assert type_.element is not None
            values = _finished(array.values, type_.element)
            mask = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(
                array.offsets, values, type=arrow_type(type_), mask=mask
            )
    return array


def _struct(array: pa.Array, type_: SqlType) -> pa.Array:
    found = {field.name: array.field(number) for number, field in enumerate(array.type)}
    return pa.StructArray.from_arrays(
        [_finished(_the_one(found, field.name), field.type) for field in type_.fields],
        fields=list(arrow_type(type_)),
        mask=array.is_null() if array.null_count else None,
    )


def _check(numbers: pa.Array, smallest: int, largest: int) -> None:
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is not None and not smallest <= bounds["min"] <= bounds["max"] <= largest:
        raise IrregularJsonError


def _bytes(text: Any) -> bytes | None:
    return None if text is None else scalars.bytes_of(text)
