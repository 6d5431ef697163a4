"""From records to rows: dicts of columns by name, pseudo columns included.

If a record of a stream has no value, DELETED is set and value columns are NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ottla.engine.processors import Deliver, ProcessorContext
from ottla.engine.records import AnyRecord, Record, Windowed
from ottla.engine.stateless import StatelessProcessor
from ottla.rows.formats.headers import header_values
from ottla.rows.formats.rowtime import RowtimeExtractor
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
    """All columns of a row of this layout except DELETED."""
    bounds = WINDOW_BOUNDS if layout.windowed is not None else ()
    return (*(column.name for column in layout.schema.columns), *PSEUDO_COLUMNS, *bounds)


class SourceRows(StatelessProcessor):
    """The first node after a source: makes a row of key and value."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        super().init(context)

    def step(self, downstream: Deliver) -> Deliver:
        schema = self._layout.schema
        names = [column.name for column in (*schema.key, *schema.value)]
        names += [ROWTIME, ROWPARTITION, ROWOFFSET, DELETED]
        # A dict display with constant keys takes half the time of dict(zip(...)).
        row_of = compiled_row([(name, f"row[{index}]") for index, name in enumerate(names)])
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
    """The columns of a key, and its window bounds."""
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
    def _rowtime(self) -> RowtimeExtractor:
        return RowtimeExtractor(self._layout)

    def __getstate__(self) -> dict[str, Any]:
        return {"_layout": self._layout}

    def __call__(self, record: AnyRecord, stream_time: int) -> int:
        if record.value is None:
            return record.timestamp
        schema = self._layout.schema
        key = record.key.key if isinstance(record.key, Windowed) else record.key
        row = dict(zip((column.name for column in schema.value), record.value, strict=True))
        if key is not None:
            row.update(zip((column.name for column in schema.key), key, strict=True))
        row.setdefault(self._layout.timestamp, None)
        return self._rowtime.of_row(row, record.timestamp)
