"""Converts a table's rows: from the topic to the store, and from the store to query results."""

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
from ottla.rows.types import SqlBaseType
from ottla.spark.chunks import Chunk
from ottla.spark.table_store import RowUpdate, StoredRow

NESTED: Final = (SqlBaseType.ARRAY, SqlBaseType.MAP, SqlBaseType.STRUCT)

Row = dict[str, Any]


class TableRowReader:
    """Chunks -> updates of the store, and stored rows -> rows."""

    def __init__(self, layout: Layout, registry: SchemaRegistry | None = None) -> None:
        self._decoder = Decoder(layout, registry)
        self._encoder = Encoder(layout, registry)
        self._windowed = layout.windowed is not None
        self._columns = [column.name for column in layout.schema.columns]
        self._key = layout.schema.key
        self._values = [column.name for column in layout.schema.value]
        self._headers = layout.schema.headers
        self._nested = any(column.type.kind in NESTED for column in self._key)

    def hashed(self, values: Sequence[Any]) -> Hashable:
        """The store's form of a key: the smallest hashable object."""
        if self._nested:
            return self._encoder.plain_key(values)
        return values[0] if len(values) == 1 else tuple(values)

    def unhashed(self, key: Any) -> Sequence[Any]:
        if self._nested:
            return self._decoder.read_key(key)
        return (key,) if len(self._key) == 1 else key

    def changes(self, chunk: Chunk) -> tuple[list[RowUpdate], list[BadRecord]]:
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
            wrong = pa.array([record.offset for record in bad], pa.int64())
            right = pc.invert(pc.is_in(columns.offsets, value_set=wrong))
            values = values.filter(right)
        kept = pc.if_else(batch.column(DELETED), None, values).to_pylist()
        if self._headers:
            kept = self._with_headers(kept, batch)
        keys = [python_values(batch.column(column.name), column.type) for column in self._key]
        found = [
            map(self.hashed, zip(*keys, strict=True))
            if len(keys) != 1 or self._nested
            else keys[0],
            kept,
            batch.column(ROWTIME).to_pylist(),
            batch.column(ROWOFFSET).to_pylist(),
        ]
        if self._windowed:
            found += [batch.column(name).to_pylist() for name in (WINDOWSTART, WINDOWEND)]
        return list(map(RowUpdate, *found)), bad

    def _with_headers(self, values: list[bytes | None], batch: pa.RecordBatch) -> list[Any]:
        """Stores header columns with the bytes of the value."""
        columns = [batch.column(header.name).to_pylist() for header in self._headers]
        found = zip(values, zip(*columns, strict=True), strict=True)
        return [None if value is None else pickle.dumps((value, row)) for value, row in found]

    def _parted(self, kept: bytes) -> tuple[bytes, Sequence[Any]]:
        """The value's bytes and the header columns."""
        if not self._headers:
            return kept, ()
        value, headers = pickle.loads(kept)
        return value, headers

    def decoded(self, found: Iterable[StoredRow]) -> list[Row]:
        return [self._row(row) for row in found]

    def _row(self, kept: StoredRow) -> Row:
        value, headers = self._parted(kept.value)
        parts = dict(zip(self._values, self._decoder.read_value(value), strict=True))
        for column, value_ in zip(self._key, self.unhashed(kept.key), strict=True):
            parts[column.name] = value_
        for column, header in zip(self._headers, headers, strict=True):
            parts[column.name] = header
        row = {name: parts[name] for name in self._columns}
        row[ROWTIME] = kept.timestamp_ms
        row[ROWPARTITION] = kept.partition
        row[ROWOFFSET] = kept.offset
        if self._windowed:
            row[WINDOWSTART] = kept.start_ms
            row[WINDOWEND] = kept.end_ms
        return row

    def arrow(self, kept: Sequence[StoredRow]) -> pa.Table:
        data = [row.value for row in kept]
        headers: list[Sequence[Any]] = []
        if self._headers and data:
            data, headers = map(list, zip(*map(self._parted, data), strict=True))
        values, _ = self._decoder.read_values(pa.array(data, pa.binary()))
        parts = dict(zip(self._values, values, strict=True))
        keys = [self.unhashed(row.key) for row in kept]
        for number, column in enumerate(self._key):
            parts[column.name] = arrow_array([key[number] for key in keys], column.type)
        for number, column in enumerate(self._headers):
            parts[column.name] = arrow_array(
                [row_headers[number] for row_headers in headers], column.type
            )
        parts[ROWTIME] = pa.array([row.timestamp_ms for row in kept], pa.int64())
        parts[ROWPARTITION] = pa.array([row.partition for row in kept], pa.int32())
        parts[ROWOFFSET] = pa.array([row.offset for row in kept], pa.int64())
        parts[WINDOWSTART] = pa.array([row.start_ms for row in kept], pa.int64())
        parts[WINDOWEND] = pa.array([row.end_ms for row in kept], pa.int64())
        parts[DELETED] = pa.array(np.zeros(len(kept), bool))
        schema = self._decoder.schema
        return pa.Table.from_arrays([parts[name] for name in schema.names], schema=schema)
