"""JSON: an object with a field for each column; a single column not wrapped is its value alone.

Reading goes three ways, each of which gives the same rows: Arrow's reader for what is regular
(json_fast.py); orjson, with columns put together here; and a parser that loses no digit, where a
DECIMAL, or a number as text, wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.errors import SqlError
from ottla.rows.formats import json_text, scalars
from ottla.rows.formats.arrow import arrow_array
from ottla.rows.formats.half import Problems
from ottla.rows.formats.json_fast import FastReader
from ottla.rows.formats.json_values import (
    Convert,
    InexactError,
    Names,
    converter,
    parse_exact,
    parse_quick,
    wants_exact,
)
from ottla.rows.schema import Column
from ottla.rows.types import Field, Kind, SqlType

DIRECT: Final[dict[Kind, frozenset[type]]] = {
    Kind.BOOLEAN: frozenset({bool, type(None)}),
    Kind.INTEGER: frozenset({int, type(None)}),
    Kind.BIGINT: frozenset({int, type(None)}),
    Kind.DOUBLE: frozenset({int, float, type(None)}),
    Kind.STRING: frozenset({str, type(None)}),
}
"""What Arrow may take as it was parsed."""
AS_IS: Final = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.BIGINT, Kind.STRING})
"""What orjson writes as it is."""


class Json:
    """`entries`: a MAP may be a list of objects of a key and a value, as Connect writes it."""

    def __init__(
        self, columns: Sequence[Column], *, wrapped: bool = True, entries: bool = False
    ) -> None:
        for each in columns:
            _check(each.type)
        if not wrapped and len(columns) != 1:
            raise SqlError(
                "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
                remedy="Leave it out, or have one value column.",
            )
        self._columns = tuple(columns)
        self._wrapped = wrapped
        self._names = Names([each.name for each in columns])
        self._fields = tuple(Field(each.name, each.type) for each in columns)
        self._exact_only = any(wants_exact(each.type) for each in columns)
        self._quick = [converter(each.type, exact=False, entries=entries) for each in columns]
        self._exact = [converter(each.type, exact=True, entries=entries) for each in columns]
        self._writers = [_plainer(each.type) for each in columns]
        self._fast = FastReader(columns if wrapped else ())
        self._column_names = [each.name for each in columns]
        self._written_as_is = all(each.type.kind in AS_IS for each in columns)

    # Reading

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        columns = self._fast.read(data)
        if columns is not None:
            return columns, {}
        values = data.to_pylist()
        if not self._exact_only:
            try:
                return self._read(values, parse_quick, self._quick)
            except InexactError:
                pass
        return self._read(values, parse_exact, self._exact)

    def read_row(self, data: bytes) -> list[Any]:
        if not self._exact_only:
            try:
                return self._row(parse_quick(data), self._quick)
            except InexactError:
                pass
        return self._row(parse_exact(data), self._exact)

    def _row(self, parsed: Any, converters: Sequence[Convert]) -> list[Any]:
        fields = self._picked(parsed)
        return [convert(each) for convert, each in zip(converters, fields, strict=True)]

    def _read(
        self, data: list[bytes], parse: Callable[[bytes], Any], converters: Sequence[Convert]
    ) -> tuple[list[pa.Array], Problems]:
        problems: Problems = {}
        rows: list[Sequence[Any]] = []
        nothing = [None] * len(self._columns)
        shape: tuple[str, ...] | None = None
        pick: Convert = self._picked
        for row, each in enumerate(data):
            try:
                parsed = parse(each)
                if type(parsed) is dict and shape != (here := tuple(parsed)):
                    shape, pick = here, self._picker(here)
                rows.append(pick(parsed) if type(parsed) is dict else self._picked(parsed))
            except ValueError as error:
                problems[row] = f"not valid JSON for this: {error}"
                rows.append(nothing)
        columns = zip(*rows, strict=True) if rows else [()] * len(self._columns)
        arrays = [
            _column(list(values), each.type, convert, problems)
            for values, each, convert in zip(columns, self._columns, converters, strict=True)
        ]
        return arrays, problems

    def _picked(self, parsed: Any) -> list[Any]:
        """The columns' values, as they were parsed."""
        if not self._wrapped:
            return [parsed]
        if type(parsed) is not dict:
            raise ValueError("a JSON object is expected")
        found = self._names.of(tuple(parsed))
        return [None if each is None else parsed[each] for each in found]

    def _picker(self, shape: tuple[str, ...]) -> Convert:
        """What picks the columns' values of all objects with these names."""
        found = self._names.of(shape)
        if not self._wrapped or len(found) < 2:
            return self._picked
        if None not in found:
            return itemgetter(*found)
        return lambda parsed: [None if each is None else parsed[each] for each in found]

    # Writing

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if not self._wrapped:
            column, type_ = columns[0], self._columns[0].type
            alone = json_text.texts(column, type_)
            if column.null_count:
                alone = pc.if_else(column.is_valid(), alone, None)
            return alone.cast(pa.binary())
        return json_text.objects(columns, self._fields, count).cast(pa.binary())

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        if self._wrapped and self._written_as_is:
            return orjson.dumps(dict(zip(self._column_names, values, strict=True)))
        plain = [write(each) for write, each in zip(self._writers, values, strict=True)]
        if not self._wrapped:
            return None if values[0] is None else orjson.dumps(plain[0])
        return orjson.dumps(dict(zip(self._column_names, plain, strict=True)))


def _column(values: list[Any], type_: SqlType, convert: Convert, problems: Problems) -> pa.Array:
    if set(map(type, values)) <= DIRECT.get(type_.kind, frozenset()):
        try:
            return arrow_array(values, type_)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # a number that does not fit, or half a surrogate pair: find out which
    converted: list[Any] = []
    for row, each in enumerate(values):
        try:
            value = convert(each)
        except ValueError as error:
            problems.setdefault(row, str(error))
            value = None
        converted.append(value)
    return _built(converted, type_, problems)


def _built(values: list[Any], type_: SqlType, problems: Problems) -> pa.Array:
    try:
        return arrow_array(values, type_)
    except (pa.ArrowException, UnicodeError):
        for row, each in enumerate(values):
            try:
                arrow_array([each], type_)
            except (pa.ArrowException, UnicodeError) as error:
                problems.setdefault(row, str(error))
                values[row] = None
        return arrow_array(values, type_)


def _check(type_: SqlType) -> None:
    if type_.kind is Kind.MAP and type_.key is not None and type_.key.kind is not Kind.STRING:
        raise SqlError("JSON only supports MAP types with STRING keys")
    for each in (type_.element, *(field.type for field in type_.fields)):
        if each is not None:
            _check(each)


def _plainer(type_: SqlType) -> Convert:
    """Value of a row -> what orjson writes as JSON."""
    inner = _plain_nested(type_) or PLAIN.get(type_.kind, lambda value: value)
    return lambda value: None if value is None else inner(value)


def _plain_nested(type_: SqlType) -> Convert | None:
    if type_.kind is Kind.STRUCT:
        fields = [(each.name, _plainer(each.type)) for each in type_.fields]
        return lambda value: {name: write(value.get(name)) for name, write in fields}
    if type_.kind not in (Kind.ARRAY, Kind.MAP):
        return None
    assert type_.element is not None
    element = _plainer(type_.element)
    if type_.kind is Kind.ARRAY:
        return lambda value: [element(each) for each in value]
    # NULL as a key, which only INSERT VALUES can have, is "null", as Jackson writes it.
    return lambda value: {
        "null" if name is None else name: element(each) for name, each in value.items()
    }


PLAIN: Final[dict[Kind, Convert]] = {
    Kind.DOUBLE: lambda value: orjson.Fragment(json_text.double_text(float(value)) or ""),
    Kind.DECIMAL: lambda value: orjson.Fragment(scalars.plain_decimal(value)),
    Kind.BYTES: scalars.base64_of,
    Kind.DATE: scalars.days_of,
    Kind.TIME: scalars.milliseconds_of,
    Kind.TIMESTAMP: scalars.epoch_ms_of,
}
