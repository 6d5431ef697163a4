"""Builds Arrow arrays of SQL types from what readers have collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.avro.readers import (
    BooleanReader,
    BytesReader,
    ColumnReader,
    DecimalReader,
    DoubleReader,
    EnumReader,
    ListReader,
    LongReader,
    NullReader,
)
from ottla.rows.formats.codec import Problems

ArrayBuilder = Callable[[bytes, Problems | None], pa.Array]
"""Builds the array of a column from the payloads' bytes. Values that Arrow can't hold are reported
as problems of their rows; inside nested values, where the row is unknown, they become null."""


def nulls_of(reader: NullReader, kind: pa.DataType) -> ArrayBuilder:
    return lambda data, problems: pa.nulls(reader.count, kind)


def longs_of(reader: LongReader, kind: pa.DataType, factor: int = 1) -> ArrayBuilder:
    """`factor` is the number of the column's units in one of the writer's."""

    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        numbers = np.frombuffer(reader.values.getvalue(), np.int64)
        if kind.bit_width == 32:
            numbers = numbers.astype(np.int32)
        if factor != 1:
            numbers = numbers * factor
        return _of_buffers(reader, kind, len(numbers), numbers)

    return finish


def doubles_of(reader: DoubleReader) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        values = reader.values.getvalue()
        return _of_buffers(reader, pa.float64(), len(values) // 8, values)

    return finish


def booleans_of(reader: BooleanReader) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        values = np.frombuffer(reader.values.getvalue(), np.uint8)
        return _of_buffers(reader, pa.bool_(), len(values), np.packbits(values, bitorder="little"))

    return finish


def bytes_of(reader: BytesReader) -> ArrayBuilder:
    return lambda data, problems: _cut(reader, data)


def texts_of(reader: BytesReader) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        found = _cut(reader, data)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            return _kept(found, pa.string(), bytes.decode, problems)

    return finish


def symbols_of(reader: EnumReader, symbols: Sequence[str]) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        values = reader.values.getvalue()
        numbers = _of_buffers(reader, pa.int32(), len(values) // 4, values)
        named = pa.DictionaryArray.from_arrays(numbers, pa.array(symbols, pa.string()))
        return named.cast(pa.string())

    return finish


def decimals_of(reader: DecimalReader, scale: int, kind: pa.DataType) -> ArrayBuilder:
    """`scale` is the writer's."""

    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        values = reader.values.getvalue()
        count = len(values) // 16
        found = _of_buffers(reader, pa.decimal128(38, scale), count, values)
        try:
            return found.cast(kind)
        except pa.ArrowInvalid:
            fit = lambda value: pa.scalar(value, kind).as_py()  # noqa: E731
            return _kept(found, kind, fit, problems)

    return finish


def as_text(inner: ArrayBuilder) -> ArrayBuilder:
    """A number in a STRING column, as in ksqlDB."""
    return lambda data, problems: inner(data, problems).cast(pa.string())


def structs_of(
    reader: ColumnReader, kind: pa.DataType, children: Sequence[ArrayBuilder]
) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        arrays = [child(data, problems) for child in children]
        count = len(reader.valid)
        return pa.Array.from_buffers(kind, count, [_validity(reader)], children=arrays)

    return finish


def lists_of(reader: ListReader, kind: pa.DataType, items: ArrayBuilder) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        return _listed(reader, kind, items(data, None))

    return finish


def maps_of(
    reader: ListReader, kind: pa.DataType, keys: ArrayBuilder, items: ArrayBuilder
) -> ArrayBuilder:
    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        return _listed(reader, kind, _entries(kind, keys(data, None), items(data, None)))

    return finish


def maps_of_entries(reader: ListReader, kind: pa.DataType, entries: ArrayBuilder) -> ArrayBuilder:
    """An array of records with key and value, as Connect writes a map."""

    def finish(data: bytes, problems: Problems | None) -> pa.Array:
        keys, items = entries(data, None).flatten()
        return _listed(reader, kind, _entries(kind, keys, items))

    return finish


def _entries(kind: pa.DataType, keys: pa.Array, items: pa.Array) -> pa.Array:
    entry = pa.struct([kind.key_field, kind.item_field])
    keys = pc.fill_null(keys, "")  # Arrow's map keys must not be null
    return pa.Array.from_buffers(entry, len(keys), [None], children=[keys, items])


def _listed(reader: ListReader, kind: pa.DataType, items: pa.Array) -> pa.Array:
    offsets = pa.py_buffer(b"\0\0\0\0" + reader.ends.getvalue())
    buffers = [_validity(reader), offsets]
    return pa.Array.from_buffers(kind, len(reader.valid), buffers, children=[items])


def _of_buffers(reader: ColumnReader, kind: pa.DataType, count: int, values: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [_validity(reader), pa.py_buffer(values)])


def _validity(reader: ColumnReader) -> pa.Buffer | None:
    if not reader.nulls:
        return None
    valid = np.frombuffer(reader.valid.getvalue(), np.uint8)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _cut(reader: BytesReader, data: bytes) -> pa.Array:
    mask = np.frombuffer(reader.valid.getvalue(), np.uint8) == 0 if reader.nulls else None
    return cut(data, reader.places.getvalue(), mask)


def cut(data: bytes, places: bytes, mask: Any) -> pa.Array:
    """Uses positions as offsets, so that every second element of the array is a value.

    spark/record_arrays.py does the same.
    """
    count = len(places) // 8
    offsets = pa.py_buffer(b"\0\0\0\0" + places)
    pieces = pa.Array.from_buffers(pa.binary(), count * 2, [None, offsets, pa.py_buffer(data)])
    return pieces.take(pa.array(np.arange(1, count * 2, 2, dtype=np.int32), mask=mask))


def _kept(
    found: pa.Array, kind: pa.DataType, convert: Callable[[Any], Any], problems: Problems | None
) -> pa.Array:
    """Converts value by value, where some values can't be converted."""
    values = []
    for row, value in enumerate(found.to_pylist()):
        try:
            values.append(None if value is None else convert(value))
        except ValueError as error:
            values.append(None)
            if problems is not None:
                problems.setdefault(row, str(error))
    return pa.array(values, kind)
