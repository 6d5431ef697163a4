"""Records -> rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.arrow import arrow_schema, spread
from ottla.rows.formats.codec import Codec, Problems, codec_of
from ottla.rows.formats.header_frames import HeaderFrames
from ottla.rows.formats.headers import header_columns, header_values
from ottla.rows.formats.rowtime import RowtimeExtractor
from ottla.rows.formats.windows import WindowKeys
from ottla.rows.schema import (
    DELETED,
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Layout,
)

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry

SHOWN_BYTES_MAX: Final = 200
NULL_KEY: Final = "a record of a table needs a key"


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that can't be deserialized: `half` is key, value or timestamp; `data` has its first
    bytes."""

    partition: int
    offset: int
    half: str
    cause: str
    data: bytes | None


class Decoder:
    """`registry` has the records' schemas; not every format needs one."""

    def __init__(self, layout: Layout, registry: SchemaRegistry | None = None) -> None:
        self.layout = layout
        self.schema = arrow_schema(layout)
        schema = layout.schema
        self._key = codec_of(layout.key_format, schema.key, of_key=True, registry=registry)
        self._value = codec_of(layout.value_format, schema.value, of_key=False, registry=registry)
        self._windows = WindowKeys(layout.windowed) if layout.windowed else None
        self._key_frames = HeaderFrames(layout.key_format, of_key=True)
        self._value_frames = HeaderFrames(layout.value_format, of_key=False)
        self._rowtime = RowtimeExtractor(layout)
        self._key_is_json = layout.key_format.name.upper() == "JSON"
        self._value_is_json = layout.value_format.name.upper() == "JSON"

    # Batches

    def decode(
        self,
        keys: pa.Array,
        values: pa.Array,
        timestamps_ms: pa.Array,
        partitions: pa.Array,
        offsets: pa.Array,
        headers: pa.Array | None = None,
    ) -> tuple[pa.RecordBatch, list[BadRecord]]:
        """Returns the rows, and the records that can't be deserialized."""
        batch = _Batch(self, keys, values, timestamps_ms, headers)
        columns = [batch.columns[column.name] for column in self.layout.schema.columns]
        columns += [batch.rowtime, partitions, offsets, *batch.bounds, batch.deleted]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if not batch.problems:
            return rows, []
        kept = np.ones(len(keys), bool)
        kept[list(batch.problems)] = False
        bad = [
            BadRecord(partitions[row].as_py(), offsets[row].as_py(), half, cause, data)
            for row, (half, cause, data) in sorted(batch.problems.items())
        ]
        return rows.filter(pa.array(kept)), bad

    # Single records

    def row(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        partition: int = 0,
        offset: int = 0,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> dict[str, Any]:
        """All columns by name, including hidden ones. Raises ValueError for a bad record."""
        found: dict[str, Any] = {}
        hidden: dict[str, Any] = {}
        if self._windows is not None:
            hidden = {WINDOWSTART: None, WINDOWEND: None}
            if key is not None:
                key, start, end = self._windows.split_row(key)
                hidden = {WINDOWSTART: start, WINDOWEND: end}
        schema = self.layout.schema
        if key is None or (self._key_is_json and key == b"null"):
            if self.layout.is_table and schema.key:
                raise ValueError(NULL_KEY)
            key = None
        deleted = value is None or (self._value_is_json and value == b"null")
        headers = list(headers)
        key = self._key_frames.framed_row(key, headers)
        value = self._value_frames.framed_row(value, headers)
        found |= _row_of(self._key, key, [column.name for column in schema.key])
        names = [column.name for column in schema.value]
        found |= _row_of(self._value, None if deleted else value, names)
        found |= header_values(schema.headers, headers)
        row = {column.name: found[column.name] for column in schema.columns}
        moment = timestamp_ms if deleted else self._rowtime.of_row(row, timestamp_ms)
        row |= {ROWTIME: moment, ROWPARTITION: partition, ROWOFFSET: offset, **hidden}
        row[DELETED] = deleted
        return row

    def framed_values(self, values: pa.Array, headers: pa.Array | None) -> pa.Array:
        """Values for the methods below, which take no headers: the schema id is put in front."""
        return self._value_frames.framed(values, headers)

    def read_values(self, values: pa.Array) -> tuple[list[pa.Array], Problems]:
        """The value columns of non-null values."""
        return self._value.read(values)

    def read_key(self, key: bytes) -> list[Any]:
        """The key columns of one key without its window. Raises ValueError."""
        return self._key.read_row(key)

    def read_value(self, value: bytes) -> list[Any]:
        """The value columns of one value. Raises ValueError."""
        return self._value.read_row(value)


def _row_of(half: Codec, data: bytes | None, names: Sequence[str]) -> dict[str, Any]:
    if data is None:
        return dict.fromkeys(names)
    return dict(zip(names, half.read_row(data), strict=True))


class _Batch:
    """One call of `decode`: columns by name, and the problems so far, by row."""

    def __init__(
        self,
        decoder: Decoder,
        keys: pa.Array,
        values: pa.Array,
        timestamps_ms: pa.Array,
        headers: pa.Array | None,
    ) -> None:
        self.problems: dict[int, tuple[str, str, bytes | None]] = {}
        self.columns: dict[str, pa.Array] = {}
        self.bounds: list[pa.Array] = []
        schema = decoder.layout.schema
        inner = keys
        if decoder._windows is not None:
            inner, starts, ends, problems = decoder._windows.split(keys)
            self.bounds = [starts, ends]
            self._note("key", problems, keys)
        inner = _without_null_text(inner, decoder._key_is_json)
        if decoder.layout.is_table and schema.key and inner.null_count:
            empty = np.flatnonzero(inner.is_null().to_numpy(zero_copy_only=False))
            self._note("key", {int(row): NULL_KEY for row in empty}, keys)
        inner = decoder._key_frames.framed(inner, headers)
        self._half("key", decoder._key, inner, [column.name for column in schema.key])
        values = _without_null_text(values, decoder._value_is_json)
        self.deleted = values.is_null()
        values = decoder.framed_values(values, headers)
        self._half("value", decoder._value, values, [column.name for column in schema.value])
        self.columns |= header_columns(schema.headers, headers, len(keys))
        self.rowtime, problems = decoder._rowtime.of(self.columns, timestamps_ms, self.deleted)
        self._note("timestamp", problems, values)

    def _half(self, name: str, half: Codec, data: pa.Array, names: Sequence[str]) -> None:
        if not names:
            return
        if not data.null_count:
            arrays, problems = half.read(data)
        else:
            valid = data.is_valid().to_numpy(zero_copy_only=False)
            arrays, found = half.read(data.drop_null())
            arrays = [spread(array, valid) for array in arrays]
            rows = np.flatnonzero(valid)
            problems = {int(rows[row]): cause for row, cause in found.items()}
        self.columns |= dict(zip(names, arrays, strict=True))
        self._note(name, problems, data)

    def _note(self, half: str, problems: Problems, data: pa.Array) -> None:
        for row, cause in problems.items():
            shown = data[row].as_py()
            self.problems.setdefault(
                row, (half, cause, None if shown is None else shown[:SHOWN_BYTES_MAX])
            )


def _without_null_text(data: pa.Array, is_json: bool) -> pa.Array:
    """Treats a JSON `null` as a null key or value."""
    if not is_json:
        return data
    texts = pc.equal(data, b"null")
    return pc.if_else(texts, None, data) if pc.any(texts).as_py() else data
