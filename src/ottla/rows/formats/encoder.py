"""Rows -> records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.arrow import arrow_type
from ottla.rows.formats.codec import codec_of
from ottla.rows.formats.rowtime import RowtimeExtractor
from ottla.rows.formats.windows import WindowKeys
from ottla.rows.schema import DELETED, ROWTIME, WINDOWEND, WINDOWSTART, Column, Layout

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry


class Encoder:
    """Does not write headers: as in ksqlDB, a stream with header columns is read-only.

    Schemas are registered in `registry`; not every format needs one.
    """

    def __init__(self, layout: Layout, registry: SchemaRegistry | None = None) -> None:
        self.layout = layout
        schema = layout.schema
        self._key = codec_of(layout.key_format, schema.key, of_key=True, registry=registry)
        self._value = codec_of(layout.value_format, schema.value, of_key=False, registry=registry)
        self._windows = WindowKeys(layout.windowed) if layout.windowed else None
        self._rowtime = RowtimeExtractor(layout)
        names = () if layout.is_table else [column.name for column in schema.key]
        self._moment = names.index(ROWTIME) if ROWTIME in names else None
        """PARTITION BY ROWTIME: the index of the column that is key and timestamp in one."""

    def encode(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Keys, values, and timestamps in milliseconds or null."""
        count = batch.num_rows
        schema = self.layout.schema
        deleted = _get(batch, DELETED)
        if deleted is not None:
            deleted = pc.fill_null(deleted, False)
        key_columns = _columns(batch, schema.key)
        if self._moment is not None and deleted is not None:
            # As in ksqlDB: a record without value has a timestamp, but nothing to make a key of.
            moments = pc.if_else(deleted, None, key_columns[self._moment])
            key_columns[self._moment] = moments
        keys = pa.nulls(count, pa.binary())
        if key_columns:
            keys = self._key.write(key_columns, count)
            if not self.layout.always_keyed:
                keys = _null_where_all_are(keys, key_columns)
        if self._windows is not None:
            keys = self._windows.join(keys, _column(batch, WINDOWSTART), _get(batch, WINDOWEND))
        values = self._value.write(_columns(batch, schema.value), count)
        if deleted is not None and pc.any(deleted).as_py():
            values = pc.if_else(deleted, None, values)
        return keys, values, self._timestamps(batch, deleted)

    def record(self, row: Mapping[str, Any]) -> tuple[bytes | None, bytes | None, int | None]:
        """Encodes one row by name; a missing column is null. Raises ValueError."""
        schema = self.layout.schema
        key = self.key_bytes(row)
        deleted = bool(row.get(DELETED))
        value = None
        if not deleted:
            value = self._value.write_row([row.get(column.name) for column in schema.value])
        timestamp: int | None = row.get(ROWTIME)
        if self.layout.timestamp and not deleted and row.get(self.layout.timestamp) is not None:
            timestamp = self._rowtime.of_row(row, 0)
        return key, value, timestamp

    def key_bytes(self, row: Mapping[str, Any]) -> bytes | None:
        """The key with its window; None if all columns are null, unless always_keyed."""
        values = [row.get(column.name) for column in self.layout.schema.key]
        key = None
        if self.layout.always_keyed or any(value is not None for value in values):
            key = self._key.write_row(values)
        if key is None or self._windows is None:
            return key
        return self._windows.join_row(key, row[WINDOWSTART], row.get(WINDOWEND))

    def plain_key(self, values: Sequence[Any]) -> bytes | None:
        """The key without its window."""
        return self._key.write_row(values)

    def _timestamps(self, batch: pa.RecordBatch, deleted: pa.Array | None) -> pa.Array:
        rowtime = _get(batch, ROWTIME)
        if rowtime is None:
            rowtime = pa.nulls(batch.num_rows, pa.int64())
        if not self.layout.timestamp:
            return rowtime
        column = {self.layout.timestamp: _column(batch, self.layout.timestamp)}
        none = pa.array([False] * batch.num_rows)
        moments, problems = self._rowtime.of(column, rowtime, none if deleted is None else deleted)
        if problems:
            sound = pa.array([row not in problems for row in range(batch.num_rows)])
            moments = pc.if_else(sound, moments, rowtime)
        return moments


def _columns(batch: pa.RecordBatch, columns: Sequence[Column]) -> list[pa.Array]:
    """Casts the columns: Spark may use other time units or large strings."""
    found = []
    for column in columns:
        array, wanted = _column(batch, column.name), arrow_type(column.type)
        found.append(array if array.type.equals(wanted) else array.cast(wanted))
    return found


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = _get(batch, name)
    if column is None:
        raise ValueError(f"the rows have no column {name}; they have {batch.schema.names}")
    return column


def _get(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)


def _null_where_all_are(keys: pa.Array, columns: Sequence[pa.Array]) -> pa.Array:
    if not all(column.null_count for column in columns):
        return keys
    some = columns[0].is_valid()
    for column in columns[1:]:
        some = pc.or_(some, column.is_valid())
    return pc.if_else(some, keys, None)
