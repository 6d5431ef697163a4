"""From records of a topic to rows under the key of an operator, in one step.

This does the work of SourceRows and KeyedRows without the dict between them: texts find columns by
index in a tuple of key and value. Nearly all records that joins read take this path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import and_
from typing import Any

from ottla.engine.processors import Deliver, ProcessorContext
from ottla.engine.record_batch import DeliverBatch, RecordBatch
from ottla.engine.records import AnyRecord, Record
from ottla.engine.stateless import StatelessProcessor
from ottla.rows.schema import ROWOFFSET, ROWPARTITION, ROWTIME, Layout
from ottla.sql.evaluation import (
    EACH,
    compiled,
    compiled_each,
    compiled_keyed_row,
    compiled_row_each,
)
from ottla.sql.text import Text, columns_of


def can_key(layout: Layout) -> bool:
    """False if the key has a window or a column has headers; these need SourceRows."""
    return layout.windowed is None and not layout.schema.headers


class KeyedSourceRows(StatelessProcessor):
    """Like KeyedRows, but for records from the source of a topic."""

    def __init__(
        self,
        layout: Layout,
        keys: Sequence[Text],
        row: Sequence[tuple[str, Text]],
        *,
        where: Text | None = None,
        table: bool = False,
        keyless: bool = False,
    ) -> None:
        self._layout = layout
        self._keys = tuple(keys)
        self._row = tuple(row)
        self._where = where
        self._table = table
        self._keyless = keyless

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        super().init(context)

    def step(self, downstream: Deliver) -> Deliver:
        schema = self._layout.schema
        names = [column.name for column in (*schema.key, *schema.value)]
        names += [ROWTIME, ROWPARTITION, ROWOFFSET]
        places = {name: place for place, name in enumerate(names)}
        made = [(name, text.python) for name, text in self._row]
        keyed_row = compiled_keyed_row([key.python for key in self._keys], made, places)
        texts = [*self._keys, *(text for _, text in self._row)]
        kept = None
        if self._where:
            texts.append(self._where)
            kept = compiled([self._where.python], places=places)
        spoken_of = set().union(*map(columns_of, texts))
        where_from = bool(spoken_of & {ROWPARTITION, ROWOFFSET})
        no_key, no_value = (None,) * len(schema.key), (None,) * len(schema.value)
        table, keyless = self._table, self._keyless

        def moved(record: AnyRecord) -> None:
            value, timestamp = record.value, record.timestamp
            if value is None and not table:
                return
            place: tuple[int | None, ...] = (None, None)
            if where_from:
                metadata = self._context.record_metadata
                assert metadata is not None
                place = metadata[1:]
            cells = (*(record.key or no_key), *(value or no_value), timestamp, *place)
            gone = value is None or (kept is not None and kept(cells)[0] is not True)
            if gone and not table:
                return
            key: Any
            key, row = keyed_row(cells)
            if None in key:
                if not keyless:
                    return
                key = None
            downstream(Record(key, None if gone else row, timestamp, record.headers))

        return moved

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        schema = self._layout.schema
        places: dict[str, tuple[str, int | None]] = {ROWTIME: (EACH[2], None)}
        for of, columns in zip(EACH, (schema.key, schema.value), strict=False):
            places |= {column.name: (of, place) for place, column in enumerate(columns)}
        texts = [*self._keys, *(text for _, text in self._row)]
        texts += [self._where] if self._where else []
        if not set().union(*map(columns_of, texts)) <= set(places):
            return None  # partition and offset of each record
        keys_of = compiled_each([key.python for key in self._keys], places=places)
        rows_of = compiled_row_each(
            [(name, text.python) for name, text in self._row], places=places
        )
        kept = None
        if self._where:
            kept = compiled_each([self._where.python], places=places)
        no_key, no_value = (None,) * len(schema.key), (None,) * len(schema.value)
        table, keyless = self._table, self._keyless

        def moved(batch: RecordBatch) -> None:
            present = [value is not None for value in batch.values]
            if None in batch.keys or False in present:
                keys = [key or no_key for key in batch.keys]
                batch = batch.with_pairs(keys, [value or no_value for value in batch.values])
            if kept is not None:
                chosen = [found is True for (found,) in kept(_each(batch))]
                present = list(map(and_, present, chosen))
            gone = False in present
            if gone and not table:
                batch, gone = batch.kept(present), False
            keys, rows = keys_of(_each(batch)), rows_of(_each(batch))
            if gone:
                rows = [row if here else None for row, here in zip(rows, present, strict=True)]
            if any(None in column for column in zip(*keys, strict=True)):
                if keyless:
                    keys = [None if None in key else key for key in keys]
                else:
                    whole = [None not in key for key in keys]
                    batch, keys, rows = batch.kept(whole), *_both(keys, rows, whole)
            downstream(batch.with_pairs(keys, rows))

        return moved


def _both(keys: list[Any], rows: list[Any], keep: list[bool]) -> tuple[list[Any], list[Any]]:
    return list(compress(keys, keep)), list(compress(rows, keep))


def _each(batch: RecordBatch) -> Iterable[tuple[Any, Any, int]]:
    return zip(batch.keys, batch.values, batch.timestamps, strict=True)
