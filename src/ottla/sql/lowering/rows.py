"""Where records become rows: a dict of columns by name, with ROWTIME and its like.

A row of a stream whose record has no value has DELETED set and NULLs for its value columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ottla.engine.processors import Context, Deliver
from ottla.engine.records import AnyRecord, Record, Windowed
from ottla.engine.stateless import Stateless
from ottla.rows.formats.headers import header_values
from ottla.rows.formats.rowtime import RowTime
from ottla.rows.schema import (
    DELETED,
    PSEUDO_COLUMNS,
    ROWOFFSET,
    ROWPARTITION,
    ROWTIME,
    WINDOW_BOUNDS,
    WINDOWEND,
    WINDOWSTART,
    Layout,
)

Row = dict[str, Any]


def row_names(layout: Layout) -> tuple[str, ...]:
    """All that a row of this layout has, but DELETED."""
    bounds = WINDOW_BOUNDS if layout.windowed is not None else ()
    return (*(each.name for each in layout.schema.columns), *PSEUDO_COLUMNS, *bounds)


class SourceRows(Stateless):
    """The first node behind a source: key and value columns become one row."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def init(self, context: Context) -> None:
        self._context = context
        super().init(context)

    def step(self, downstream: Deliver) -> Deliver:
        schema = self._layout.schema
        keys = [each.name for each in schema.key]
        values = [each.name for each in schema.value]
        headers = schema.headers

        def read(record: AnyRecord) -> None:
            key, value = record.key, record.value
            row: Row = {} if key is None else key_row(keys, key)
            if key is None:
                row = dict.fromkeys(keys)
            row.update(zip(values, value, strict=True) if value else dict.fromkeys(values))
            if headers:
                row.update(header_values(headers, record.headers))
            metadata = self._context.record_metadata
            assert metadata is not None
            row[ROWTIME] = record.timestamp
            row[ROWPARTITION] = metadata.partition
            row[ROWOFFSET] = metadata.offset
            row[DELETED] = value is None
            downstream(Record(key, row, record.timestamp, record.headers))

        return read


def key_row(names: Sequence[str], key: Any) -> Row:
    """The columns that a key has, and its window's bounds."""
    if not isinstance(key, Windowed):
        return dict(zip(names, key, strict=True))
    row = dict.fromkeys(names) if key.key is None else dict(zip(names, key.key, strict=True))
    row[WINDOWSTART], row[WINDOWEND] = key.window
    return row


class ColumnTime:
    """The timestamp extractor of a source with TIMESTAMP='column'."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    @cached_property
    def _rowtime(self) -> RowTime:
        return RowTime(self._layout)

    def __getstate__(self) -> dict[str, Any]:
        return {"_layout": self._layout}

    def __call__(self, record: AnyRecord, stream_time: int) -> int:
        if record.value is None:
            return record.timestamp
        schema = self._layout.schema
        key = record.key.key if isinstance(record.key, Windowed) else record.key
        row = dict(zip((each.name for each in schema.value), record.value, strict=True))
        if key is not None:
            row.update(zip((each.name for each in schema.key), key, strict=True))
        row.setdefault(self._layout.timestamp, None)
        return self._rowtime.of_row(row, record.timestamp)
