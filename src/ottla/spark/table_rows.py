"""A table's rows between the topic and the store, and between the store and who asks for them."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.formats import BadRecord, Decoder, Encoder
from ottla.rows.formats.arrow import arrow_array, python_values
from ottla.rows.schema import (
    DELETED,
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Layout,
)
from ottla.rows.types import Kind
from ottla.spark.reading import Chunk
from ottla.spark.table_store import Change, Kept

NESTED: Final = (Kind.ARRAY, Kind.MAP, Kind.STRUCT)

Row = dict[str, Any]


class RowReader:
    """Chunks -> changes of the store, and what the store has -> rows."""

    def __init__(self, layout: Layout, registry: SchemaRegistry | None = None) -> None:
        self._decoder = Decoder(layout, registry)
        self._encoder = Encoder(layout, registry)
        self._windowed = layout.windowed is not None
        self._columns = [each.name for each in layout.schema.columns]
        self._key = layout.schema.key
        self._values = [each.name for each in layout.schema.value]
        self._headers = layout.schema.headers
        self._nested = any(each.type.kind in NESTED for each in self._key)

    def hashed(self, values: Sequence[Any]) -> Hashable:
        """A key as a store has it: the smallest thing that can be compared."""
        if self._nested:
            return self._encoder.plain_key(values)
        return values[0] if len(values) == 1 else tuple(values)

    def unhashed(self, key: Any) -> Sequence[Any]:
        if self._nested:
            return self._decoder.read_key(key)
        return (key,) if len(self._key) == 1 else key

    def changes(self, chunk: Chunk) -> tuple[list[Change], list[BadRecord]]:
        columns = chunk.columns
        partitions = pa.repeat(pa.scalar(chunk.partition, pa.int32()), len(chunk))
        batch, bad = self._decoder.decode(
            columns.keys,
            columns.values,
            columns.timestamps_ms,
            partitions,
            columns.offsets,
            columns.headers,
        )
        values = self._decoder.framed_values(columns.values, columns.headers)
        if bad:
            wrong = pa.array([each.offset for each in bad], pa.int64())
            right = pc.invert(pc.is_in(columns.offsets, value_set=wrong))
            values = values.filter(right)
        kept = pc.if_else(batch.column(DELETED), None, values).to_pylist()
        if self._headers:
            kept = self._with_headers(kept, batch)
        keys = [python_values(batch.column(each.name), each.type) for each in self._key]
        found = [
            map(self.hashed, zip(*keys, strict=True))
            if len(keys) != 1 or self._nested
            else keys[0],
            kept,
            batch.column(ROWTIME).to_pylist(),
            batch.column(ROWOFFSET).to_pylist(),
        ]
        if self._windowed:
            found += [batch.column(each).to_pylist() for each in (WINDOWSTART, WINDOWEND)]
        return list(map(Change, *found)), bad

    def _with_headers(self, values: list[bytes | None], batch: pa.RecordBatch) -> list[Any]:
        """The columns that are headers go with the bytes of the value."""
        columns = [batch.column(each.name).to_pylist() for each in self._headers]
        found = zip(values, zip(*columns, strict=True), strict=True)
        return [None if value is None else pickle.dumps((value, row)) for value, row in found]

    def _parted(self, kept: bytes) -> tuple[bytes, Sequence[Any]]:
        """The value of a record, and the columns that are headers."""
        if not self._headers:
            return kept, ()
        value, headers = pickle.loads(kept)
        return value, headers

    def decoded(self, found: Iterable[Kept]) -> list[Row]:
        return [self._row(each) for each in found]

    def _row(self, kept: Kept) -> Row:
        value, headers = self._parted(kept.value)
        parts = dict(zip(self._values, self._decoder.read_value(value), strict=True))
        for column, each in zip(self._key, self.unhashed(kept.key), strict=True):
            parts[column.name] = each
        for column, each in zip(self._headers, headers, strict=True):
            parts[column.name] = each
        row = {name: parts[name] for name in self._columns}
        row[ROWTIME] = kept.timestamp_ms
        row[ROWPARTITION] = kept.partition
        row[ROWOFFSET] = kept.offset
        if self._windowed:
            row[WINDOWSTART] = kept.start_ms
            row[WINDOWEND] = kept.end_ms
        return row

    def arrow(self, kept: Sequence[Kept]) -> pa.Table:
        data = [each.value for each in kept]
        headers: list[Sequence[Any]] = []
        if self._headers and data:
            data, headers = map(list, zip(*map(self._parted, data), strict=True))
        values, _ = self._decoder.read_values(pa.array(data, pa.binary()))
        parts = dict(zip(self._values, values, strict=True))
        keys = [self.unhashed(each.key) for each in kept]
        for number, column in enumerate(self._key):
            parts[column.name] = arrow_array([each[number] for each in keys], column.type)
        for number, column in enumerate(self._headers):
            parts[column.name] = arrow_array([each[number] for each in headers], column.type)
        parts[ROWTIME] = pa.array([each.timestamp_ms for each in kept], pa.int64())
        parts[ROWPARTITION] = pa.array([each.partition for each in kept], pa.int32())
        parts[ROWOFFSET] = pa.array([each.offset for each in kept], pa.int64())
        parts[WINDOWSTART] = pa.array([each.start_ms for each in kept], pa.int64())
        parts[WINDOWEND] = pa.array([each.end_ms for each in kept], pa.int64())
        parts[DELETED] = pa.array(np.zeros(len(kept), bool))
        schema = self._decoder.schema
        return pa.Table.from_arrays([parts[each] for each in schema.names], schema=schema)
