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
from ottla.sql.evaluation import compiled_row

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
        names = [each.name for each in (*schema.key, *schema.value)]
        names += [ROWTIME, ROWPARTITION, ROWOFFSET, DELETED]
        # One display of a dict with constant keys: half the time of dict(zip(...)).
        row_of = compiled_row([(name, f"row[{place}]") for place, name in enumerate(names)])
        no_key, no_value = (None,) * len(schema.key), (None,) * len(schema.value)
        headers = schema.headers

        def read(record: AnyRecord) -> None:
            key, value, timestamp = record.key, record.value, record.timestamp
            cells = key.key if isinstance(key, Windowed) else key
            metadata = self._context.record_metadata
            assert metadata is not None
            row = row_of(
                (
                    *(cells or no_key),
                    *(value or no_value),
                    timestamp,
                    metadata[1],
                    metadata[2],
                    value is None,
                )
            )
            if isinstance(key, Windowed):
                row[WINDOWSTART], row[WINDOWEND] = key.window
            if headers:
                row.update(header_values(headers, record.headers))
            downstream(Record(key, row, timestamp, record.headers))

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
