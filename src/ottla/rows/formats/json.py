"""JSON: an object with a field per column; an unwrapped single column is its value alone.

There are three ways to read, with the same results: Arrow's reader for regular data (json_fast.py);
orjson; and an exact parser where a DECIMAL, or a number that becomes text, needs all digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.errors import SqlError
from ottla.rows.formats import json_text, scalars
from ottla.rows.formats.arrow import arrow_array
from ottla.rows.formats.codec import Problems
from ottla.rows.formats.json_fast import FastJsonReader
from ottla.rows.formats.json_values import (
    Convert,
    FieldNames,
    InexactError,
    json_value_converter,
    parse_exact,
    parse_quick,
    wants_exact,
)
from ottla.rows.schema import Column
from ottla.rows.types import SqlBaseType, SqlField, SqlType

DIRECT: Final[dict[SqlBaseType, frozenset[type]]] = {
    SqlBaseType.BOOLEAN: frozenset({bool, type(None)}),
    SqlBaseType.INTEGER: frozenset({int, type(None)}),
    SqlBaseType.BIGINT: frozenset({int, type(None)}),
    SqlBaseType.DOUBLE: frozenset({int, float, type(None)}),
    SqlBaseType.STRING: frozenset({str, type(None)}),
}
"""Types whose parsed values need no conversion for Arrow."""
AS_IS: Final = frozenset(
    {SqlBaseType.BOOLEAN, SqlBaseType.INTEGER, SqlBaseType.BIGINT, SqlBaseType.STRING}
)
"""What orjson writes without conversion."""


class JsonFormat:
    """`entries`: a MAP may be a list of objects with key and value, as Connect writes it."""

    def __init__(
        self, columns: Sequence[Column], *, wrapped: bool = True, entries: bool = False
    ) -> None:
        for column in columns:
            _check(column.type)
        if not wrapped and len(columns) != 1:
            raise SqlError(
                "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
                remedy="Leave it out, or have one value column.",
            )
        self._columns = tuple(columns)
        self._wrapped = wrapped
        self._names = FieldNames([column.name for column in columns])
        self._fields = tuple(SqlField(column.name, column.type) for column in columns)
        self._exact_only = any(wants_exact(column.type) for column in columns)
        self._quick = [
            json_value_converter(column.type, exact=False, entries=entries) for column in columns
        ]
        self._exact = [
            json_value_converter(column.type, exact=True, entries=entries) for column in columns
        ]
        self._writers = [_plainer(column.type) for column in columns]
        self._fast = FastJsonReader(columns if wrapped else ())
        self._column_names = [column.name for column in columns]
        self._written_as_is = all(column.type.kind in AS_IS for column in columns)

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
        return [convert(field) for convert, field in zip(converters, fields, strict=True)]

    def _read(
        self, data: list[bytes], parse: Callable[[bytes], Any], converters: Sequence[Convert]
    ) -> tuple[list[pa.Array], Problems]:
        problems: Problems = {}
        rows: list[Sequence[Any]] = []
        nothing = [None] * len(self._columns)
        shape: tuple[str, ...] | None = None
        pick: Convert = self._picked
        for row, payload in enumerate(data):
            try:
                parsed = parse(payload)
                if type(parsed) is dict and shape != (here := tuple(parsed)):
                    shape, pick = here, self._picker(here)
                rows.append(pick(parsed) if type(parsed) is dict else self._picked(parsed))
            except ValueError as error:
                problems[row] = f"not valid JSON for this: {error}"
                rows.append(nothing)
        columns = zip(*rows, strict=True) if rows else [()] * len(self._columns)
        arrays = [
            _column(list(values), column.type, convert, problems)
            for values, column, convert in zip(columns, self._columns, converters, strict=True)
        ]
        return arrays, problems

    def _picked(self, parsed: Any) -> list[Any]:
        """The columns' parsed values."""
        if not self._wrapped:
            return [parsed]
        if type(parsed) is not dict:
            raise ValueError("expected a JSON object")
        found = self._names.of(tuple(parsed))
        return [None if payload is None else parsed[payload] for payload in found]

    def _picker(self, shape: tuple[str, ...]) -> Convert:
        """A function that picks the columns' values from objects with these names."""
        found = self._names.of(shape)
        if not self._wrapped or len(found) < 2:
            return self._picked
        if None not in found:
            return itemgetter(*found)
        return lambda parsed: [None if payload is None else parsed[payload] for payload in found]

    # Writing

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if not self._wrapped:
            column, type_ = columns[0], self._columns[0].type
            alone = json_text.json_texts(column, type_)
            if column.null_count:
                alone = pc.if_else(column.is_valid(), alone, None)
            return alone.cast(pa.binary())
        return json_text.objects(columns, self._fields, count).cast(pa.binary())

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        if self._wrapped and self._written_as_is:
            return orjson.dumps(dict(zip(self._column_names, values, strict=True)))
        plain = [
            write(column_values) for write, column_values in zip(self._writers, values, strict=True)
        ]
        if not self._wrapped:
            return None if values[0] is None else orjson.dumps(plain[0])
        return orjson.dumps(dict(zip(self._column_names, plain, strict=True)))

    def write_rows(self, rows: Sequence[Sequence[Any]]) -> list[bytes | None]:
        """`write_row` of each."""
        if self._wrapped and self._written_as_is:
            return list(map(orjson.dumps, map(dict, map(zip, repeat(self._column_names), rows))))
        return list(map(self.write_row, rows))


def _column(values: list[Any], type_: SqlType, convert: Convert, problems: Problems) -> pa.Array:
    if set(map(type, values)) <= DIRECT.get(type_.kind, frozenset()):
        try:
            return arrow_array(values, type_)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # a number out of range or a lone surrogate: convert one by one to find it
    converted: list[Any] = []
    for row, value in enumerate(values):
        try:
            value = convert(value)
        except ValueError as error:
            problems.setdefault(row, str(error))
            value = None
        converted.append(value)
    return _built(converted, type_, problems)


def _built(values: list[Any], type_: SqlType, problems: Problems) -> pa.Array:
    try:
        return arrow_array(values, type_)
    except (pa.ArrowException, UnicodeError):
        for row, value in enumerate(values):
            try:
                arrow_array([value], type_)
            except (pa.ArrowException, UnicodeError) as error:
                problems.setdefault(row, str(error))
                values[row] = None
        return arrow_array(values, type_)


def _check(type_: SqlType) -> None:
    if (
        type_.kind is SqlBaseType.MAP
        and type_.key is not None
        and type_.key.kind is not SqlBaseType.STRING
    ):
        raise SqlError("JSON only supports MAP types with STRING keys")
    for part in (type_.element, *(field.type for field in type_.fields)):
        if part is not None:
            _check(part)


def _plainer(type_: SqlType) -> Convert:
    """A row's value -> a value for orjson."""
    inner = _plain_nested(type_) or PLAIN.get(type_.kind, lambda value: value)
    return lambda value: None if value is None else inner(value)


def _plain_nested(type_: SqlType) -> Convert | None:
    if type_.kind is SqlBaseType.STRUCT:
        fields = [(field.name, _plainer(field.type)) for field in type_.fields]
        return lambda value: {name: write(value.get(name)) for name, write in fields}
    if type_.kind not in (SqlBaseType.ARRAY, SqlBaseType.MAP):
        return None
    assert type_.element is not None
    element = _plainer(type_.element)
    if type_.kind is SqlBaseType.ARRAY:
        return lambda value: [element(item) for item in value]
    # A NULL key, which only INSERT VALUES allows, is "null", as Jackson writes it.
    return lambda value: {
        "null" if name is None else name: element(item) for name, item in value.items()
    }


PLAIN: Final[dict[SqlBaseType, Convert]] = {
    SqlBaseType.DOUBLE: lambda value: orjson.Fragment(json_text.double_text(float(value)) or ""),
    SqlBaseType.DECIMAL: lambda value: orjson.Fragment(scalars.plain_decimal(value)),
    SqlBaseType.BYTES: scalars.base64_of,
    SqlBaseType.DATE: scalars.days_of,
    SqlBaseType.TIME: scalars.milliseconds_of,
    SqlBaseType.TIMESTAMP: scalars.epoch_ms_of,
}
