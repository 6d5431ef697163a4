"""The nodes between rows and operators: conditions, keys, columns. None of them keeps anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, cast

from ottla.engine.processors import Deliver
from ottla.engine.records import AnyRecord, Change, Record, Window, Windowed
from ottla.engine.stateless import Stateless
from ottla.rows.schema import (
    DELETED,
    ROWTIME,
    WINDOWEND,
    WINDOWSTART,
    Role,
)
from ottla.sql.evaluation import MakeRow, compiled, compiled_row
from ottla.sql.lowering.rows import Row, key_row
from ottla.sql.plan.stages import Output
from ottla.sql.text import Text, columns_of

Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]
Pair = Callable[[Any], tuple[tuple[Any, ...], tuple[Any, ...]]]
COMPILED_MAX: Final = 1000
FOREIGN: Final = "__FOREIGN"
"""In a row of the left side of a foreign key join: the foreign key."""


def values_of(texts: Sequence[Text]) -> Values:
    return _compiled(tuple(each.python for each in texts))


@lru_cache(COMPILED_MAX)
def _compiled(texts: tuple[str, ...]) -> Values:
    return compiled(texts)


def pair_of(keys: Sequence[Text], values: Sequence[Text]) -> Pair:
    """A function that gives the values of both at once."""
    parts = (f"({''.join(f'{each.python}, ' for each in some)})" for some in (keys, values))
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


class KeyedRows(Stateless):
    """A row under the key of an operator: that of a join, of a table, or of a group.

    `keys` None leaves the key as it is. `row` None leaves the row as it is. A row that `where` does
    not hold for goes on as deleted in a table, and ends here in a stream; so does a row of a stream
    without key, unless it is `keyless`.
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


class TableRows(Stateless):
    """Rows of a table under the key that they have, before they go into its store."""

    def step(self, downstream: Deliver) -> Deliver:
        def moved(record: AnyRecord) -> None:
            value = None if record.value[DELETED] else record.value
            downstream(Record(record.key, value, record.timestamp, record.headers))

        return moved


class TableWhere(Stateless):
    """A condition on the rows of a table; says nothing where there was no row, and is none."""

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


class OutputStep(Stateless):
    """What all outputs share: texts of key and value, and how the result is handed on."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def prepare(self) -> None:
        output = self._output
        roles = {each.name: each.role for each in output.layout.schema.columns}
        texts = dict(output.columns)
        keys = [each.name for each in output.layout.schema.key]
        self._key_names = keys
        self._key_of = values_of([texts[name] for name in keys])
        self._key_texts = [texts[name] for name in keys]
        names = [each for each in texts if roles[each] is not Role.KEY]
        if not output.internal:
            names = [each.name for each in output.layout.schema.value]
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
        """`row` None: a deletion."""
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
    """Condition, table functions, columns, timestamp: rows of a stream on their way out.

    `source_key` are the columns that a record without value has.
    """

    def __init__(self, output: Output, source_key: Sequence[str] = ()) -> None:
        super().__init__(output)
        self._source_key = frozenset(source_key)

    def key_of_nothing(self, row: Mapping[str, Any]) -> Any:
        """Of a record without value: NULL for whatever is computed from more than its key."""
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
            exploded = Exploded(output.exploded)
        where = bool(output.where)
        key_and_value_of = self._key_and_value_of
        plain = exploded is None and rowtime is None
        simple = plain and bool(self._key_names) and not (self._internal or self._windowed)

        def sent(record: AnyRecord) -> None:
            row: Row = record.value
            if simple and not row.get(DELETED, False) and (keyed or record.key is not None):
                # The way of nearly all rows, in as few calls as can be.
                timestamp = row[ROWTIME] = record.timestamp
                if not where or kept(row):
                    downstream(Record(*key_and_value_of(row), timestamp, record.headers))
                return
            gone = row.get(DELETED, False)
            row[ROWTIME] = record.timestamp
            if (where or exploded) and (gone or not kept(row)):
                return
            for each in (row,) if exploded is None else exploded(row):
                if gone and keyed:
                    key = self.key_of_nothing(each)
                else:
                    key = None if record.key is None and not keyed else self.key(each)
                timestamp = record.timestamp
                if rowtime is not None and not gone:
                    found = rowtime(each)[0]
                    if found is None or found < 0:
                        continue  # no record can have such a time
                    timestamp = found
                downstream(self.record(record, key, None if gone else each, timestamp))

        return sent


class Exploded:
    """Arrays side by side, one row for each place; the shorter ones end in NULLs."""

    def __init__(self, exploded: Sequence[tuple[str, Text]]) -> None:
        self._names = [name for name, _ in exploded]
        self._arrays = values_of([text for _, text in exploded])

    def __call__(self, row: Row) -> Iterator[Row]:
        arrays = [each or () for each in self._arrays(row)]
        for elements in zip_longest(*arrays):
            yield {**row, **dict(zip(self._names, elements, strict=True))}


class TableOutput(OutputStep):
    """The changes of a table on their way out; `names` are what its key is called in the texts."""

    def __init__(self, output: Output, names: Sequence[str]) -> None:
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
    """A row that has NULL for whatever is not of its key."""

    def __missing__(self, name: str) -> Any:
        return None
