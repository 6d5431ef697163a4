"""Records of a topic become rows under the key of an operator, in one step.

It does what SourceRows and KeyedRows do one after the other, without the row between them: texts
find their columns by places in a tuple of key and value. Nearly all records that joins read take
this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.engine.processors import Context, Deliver
from ottla.engine.records import AnyRecord, Record
from ottla.engine.stateless import Stateless
from ottla.rows.schema import ROWOFFSET, ROWPARTITION, ROWTIME, Layout
from ottla.sql.evaluation import compiled, compiled_keyed_row
from ottla.sql.text import Text, columns_of


def can_key(layout: Layout) -> bool:
    """Windows of keys and columns of headers need the longer way."""
    return layout.windowed is None and not layout.schema.headers


class KeyedSourceRows(Stateless):
    """As KeyedRows, for records as they come from the source of a topic."""

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

    def init(self, context: Context) -> None:
        self._context = context
        super().init(context)

    def step(self, downstream: Deliver) -> Deliver:
        schema = self._layout.schema
        names = [each.name for each in (*schema.key, *schema.value)]
        names += [ROWTIME, ROWPARTITION, ROWOFFSET]
        places = {name: place for place, name in enumerate(names)}
        made = [(name, text.python) for name, text in self._row]
        keyed_row = compiled_keyed_row([each.python for each in self._keys], made, places)
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
