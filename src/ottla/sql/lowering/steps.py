"""Stateless steps between rows and operators: conditions, keys, columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, cast

from ottla.engine.processors import Deliver
from ottla.engine.record_batch import BatchError, DeliverBatch, RecordBatch
from ottla.engine.records import AnyRecord, Change, Record, Window, Windowed
from ottla.engine.stateless import StatelessProcessor
from ottla.rows.schema import (
    DELETED,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Role,
)
from ottla.sql.evaluation import MakeRow, compiled, compiled_each, compiled_row
from ottla.sql.lowering.rows import Row, key_row
from ottla.sql.plan.stages import StageOutput
from ottla.sql.text import Text, columns_of

Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]
Pair = Callable[[Any], tuple[tuple[Any, ...], tuple[Any, ...]]]
COMPILED_MAX: Final = 1000
FOREIGN: Final = "__FOREIGN"
"""The column of the foreign key, in a row of the left side of a foreign-key join."""


def values_of(texts: Sequence[Text]) -> Values:
    return _compiled(tuple(text.python for text in texts))


@lru_cache(COMPILED_MAX)
def _compiled(texts: tuple[str, ...]) -> Values:
    return compiled(texts)


def pair_of(keys: Sequence[Text], values: Sequence[Text]) -> Pair:
    """A function that returns keys and values at once."""
    parts = (f"({''.join(f'{text.python}, ' for text in some)})" for some in (keys, values))
    return cast(Pair, _compiled(tuple(parts)))


def row_of(columns: Sequence[tuple[str, Text]]) -> MakeRow:
    return _compiled_row(tuple((name, text.python) for name, text in columns))


@lru_cache(COMPILED_MAX)
def _compiled_row(columns: tuple[tuple[str, str], ...]) -> MakeRow:
    return compiled_row(columns)


def holds(where: Text | None) -> Callable[[Mapping[str, Any]], bool]:
    if not where:
        return lambda row: True
    evaluate = values_of((where,))
    return lambda row: evaluate(row)[0] is True


class KeyedRows(StatelessProcessor):
    """Puts rows under the key of an operator: a join, a table or a group.

    `keys` and `row` may be None to leave key or row as they are. A row that fails `where` becomes a
    tombstone in a table, and is dropped in a stream. A row of a stream without key is dropped,
    unless `keyless` is set.
    """

    def __init__(
        self,
        keys: Sequence[Text],
        row: Sequence[tuple[str, Text]] | None = None,
        *,
        where: Text | None = None,
        table: bool = False,
        keyless: bool = False,
        windowed: bool = False,
    ) -> None:
        self._keys = tuple(keys)
        self._row = None if row is None else tuple(row)
        self._where = where
        self._table = table
        self._keyless = keyless
        self._windowed = windowed

    def step(self, downstream: Deliver) -> Deliver:
        key_of = values_of(self._keys)
        kept = holds(self._where) if self._where else None
        made = None if self._row is None else row_of(self._row)
        table, keyless = self._table, self._keyless
        windowed = self._windowed

        def moved(record: AnyRecord) -> None:
            row: Row = record.value
            gone = row[DELETED] or (kept is not None and not kept(row))
            if gone and not table:
                return
            key: Any = key_of(row)
            if None in key:
                if not keyless:
                    return
                key = None
            elif windowed:
                key = Windowed(key, Window(row[WINDOWSTART], row[WINDOWEND]))
            value = None
            if not gone:
                value = row if made is None else made(row)
            downstream(Record(key, value, record.timestamp, record.headers))

        return moved


class TableRows(StatelessProcessor):
    """Rows of a table under their own key, before they go to its store."""

    def step(self, downstream: Deliver) -> Deliver:
        def moved(record: AnyRecord) -> None:
            value = None if record.value[DELETED] else record.value
            downstream(Record(record.key, value, record.timestamp, record.headers))

        return moved


class TableWhere(StatelessProcessor):
    """Filters the rows of a table; drops a change from no row to no row."""

    def __init__(self, where: Text) -> None:
        self._where = where

    def step(self, downstream: Deliver) -> Deliver:
        kept = holds(self._where)

        def chosen(record: AnyRecord) -> None:
            new, old = record.value
            if new is not None and not kept(new):
                new = None
            if old is not None and not kept(old):
                old = None
            if new is not None or old is not None:
                change = Change(new, old)
                downstream(Record(record.key, change, record.timestamp, record.headers))

        return chosen


class OutputStep(StatelessProcessor):
    """The common part of outputs: texts of key and value, and forwarding the result."""

    def __init__(self, output: StageOutput) -> None:
        self._output = output

    def prepare(self) -> None:
        output = self._output
        roles = {column.name: column.role for column in output.layout.schema.columns}
        texts = dict(output.columns)
        keys = [column.name for column in output.layout.schema.key]
        self._key_names = keys
        self._key_of = values_of([texts[name] for name in keys])
        self._key_texts = [texts[name] for name in keys]
        names = [name for name in texts if roles[name] is not Role.KEY]
        if not output.internal:
            names = [column.name for column in output.layout.schema.value]
        self._value_names = names
        self._value_of = values_of([texts[name] for name in names])
        self._key_and_value_of = pair_of([texts[name] for name in keys], [texts[n] for n in names])
        self._internal = output.internal
        self._windowed = output.layout.windowed is not None

    def key(self, row: Mapping[str, Any]) -> Any:
        found = self._key_of(row) if self._key_names else None
        if self._windowed and found is not None:
            return Windowed(found, Window(row[WINDOWSTART], row[WINDOWEND]))
        return found

    def record(self, record: AnyRecord, key: Any, row: Row | None, timestamp: int) -> AnyRecord:
        """The output record; a tombstone if `row` is None."""
        value: Any = None if row is None else self._value_of(row)
        if self._internal:
            made = dict.fromkeys(self._key_names) if key is None else key_row(self._key_names, key)
            made.update(
                dict.fromkeys(self._value_names)
                if value is None
                else zip(self._value_names, value, strict=True)
            )
            made[ROWTIME], made[DELETED] = timestamp, value is None
            value = made
        return Record(key, value, timestamp, record.headers)


class StreamOutput(OutputStep):
    """Output of a stream: condition, table functions, columns, timestamp.

    `source_key` are the columns that a record without value still has.
    """

    def __init__(self, output: StageOutput, source_key: Sequence[str] = ()) -> None:
        super().__init__(output)
        self._source_key = frozenset(source_key)

    def key_of_nothing(self, row: Mapping[str, Any]) -> Any:
        """The key of a record without value: NULL if it is computed from more than the old key."""
        if not self._key_names:
            return None
        found = zip(self._key_texts, self._key_of(row), strict=True)
        return tuple(
            value if columns_of(text) <= self._source_key else None for text, value in found
        )

    def step(self, downstream: Deliver) -> Deliver:
        self.prepare()
        output = self._output
        kept, rowtime = holds(output.where), None
        if output.rowtime:
            rowtime = values_of((output.rowtime,))
        keyed = output.keyed
        exploded = None
        if output.exploded:
            exploded = FlatMapper(output.exploded)
        where = bool(output.where)
        key_and_value_of = self._key_and_value_of
        plain = exploded is None and rowtime is None
        simple = plain and bool(self._key_names) and not (self._internal or self._windowed)

        def sent(record: AnyRecord) -> None:
            row: Row = record.value
            if simple and not row.get(DELETED, False) and (keyed or record.key is not None):
                # The path of nearly all rows, with as few calls as possible.
                timestamp = row[ROWTIME] = record.timestamp
                if not where or kept(row):
                    downstream(Record(*key_and_value_of(row), timestamp, record.headers))
                return
            gone = row.get(DELETED, False)
            row[ROWTIME] = record.timestamp
            if (where or exploded) and (gone or not kept(row)):
                return
            for exploded_row in (row,) if exploded is None else exploded(row):
                if gone and keyed:
                    key = self.key_of_nothing(exploded_row)
                else:
                    key = None if record.key is None and not keyed else self.key(exploded_row)
                timestamp = record.timestamp
                if rowtime is not None and not gone:
                    found = rowtime(exploded_row)[0]
                    if found is None or found < 0:
                        continue  # not a valid timestamp
                    timestamp = found
                downstream(self.record(record, key, None if gone else exploded_row, timestamp))

        return sent

    def batch_step(self, downstream: DeliverBatch) -> DeliverBatch | None:
        self.prepare()
        output = self._output
        plain = not output.exploded and not output.rowtime
        if not plain or not self._key_names or self._internal or self._windowed:
            return None
        texts = dict(output.columns)
        keys_of = compiled_each([text.python for text in self._key_texts])
        values_of_rows = compiled_each([texts[name].python for name in self._value_names])
        kept = compiled_each([output.where.python]) if output.where else None
        spoken_of = map(columns_of, (*texts.values(), *([output.where] if output.where else ())))
        timed = ROWTIME in set().union(*spoken_of)
        keyed = output.keyed

        def sent(batch: RecordBatch) -> None:
            rows: list[Row] = batch.values
            if None in batch.keys and not keyed:
                raise BatchError
            if timed:
                for row, timestamp in zip(rows, batch.timestamps, strict=True):
                    row[ROWTIME] = timestamp
            if kept is not None:
                batch = batch.kept([found is True for (found,) in kept(rows)])
                rows = batch.values
            downstream(batch.with_pairs(keys_of(rows), values_of_rows(rows)))

        return sent


class FlatMapper:
    """Table functions: a row for each index of the arrays; shorter arrays are filled with NULLs."""

    def __init__(self, exploded: Sequence[tuple[str, Text]]) -> None:
        self._names = [name for name, _ in exploded]
        self._arrays = values_of([text for _, text in exploded])

    def __call__(self, row: Row) -> Iterator[Row]:
        arrays = [array or () for array in self._arrays(row)]
        for elements in zip_longest(*arrays):
            yield {**row, **dict(zip(self._names, elements, strict=True))}


class TableOutput(OutputStep):
    """Output of a table's changes; `names` are the names of its key columns in texts."""

    def __init__(self, output: StageOutput, names: Sequence[str]) -> None:
        super().__init__(output)
        self._names = tuple(names)

    def step(self, downstream: Deliver) -> Deliver:
        self.prepare()
        names, rowtime = self._names, None
        if self._output.rowtime:
            rowtime = values_of((self._output.rowtime,))

        def sent(record: AnyRecord) -> None:
            row: Row | None = record.value.new
            timestamp = record.timestamp
            if row is None:
                of_key = _KeyOnly(key_row(names, record.key))
                of_key[ROWTIME] = timestamp
                downstream(self.record(record, self.key(of_key), None, timestamp))
                return
            row[ROWTIME] = timestamp
            if rowtime is not None:
                timestamp = rowtime(row)[0]
                if timestamp is None or timestamp < 0:
                    return
            downstream(self.record(record, self.key(row), row, timestamp))

        return sent


class _KeyOnly(dict[str, Any]):
    """A row in which all columns but those of the key are NULL."""

    def __missing__(self, name: str) -> Any:
        return None
