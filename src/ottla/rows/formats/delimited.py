"""DELIMITED: the columns as one line of CSV, by the rules of RFC 4180 and ksqlDB's.

An empty field is null, and null is written as an empty field. So is empty text, except in the first
field, where it is quoted; so is a null that is the only field, because a line must not be empty.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats import json_text, scalars
from ottla.rows.formats.arrow import arrow_array, arrow_type
from ottla.rows.formats.codec import Problems, unsupported
from ottla.rows.java.text import java_double
from ottla.rows.schema import Column
from ottla.rows.types import SqlBaseType, SqlType

WHOLE: Final = re.compile(r"[+-]?[0-9]+")
POINT: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?"
)
QUOTED: Final = r'["\r\n]'
PLAIN_NUMBERS: Final = {
    SqlBaseType.INTEGER: r"^-?[0-9]{1,10}$",
    SqlBaseType.BIGINT: r"^-?[0-9]{1,19}$",
    SqlBaseType.DOUBLE: r"^-?[0-9]+(\.[0-9]+)?$",
}
FIELD_BYTES_MAX: Final = 1 << 30


class DelimitedFormat:
    def __init__(self, columns: Sequence[Column], delimiter: str = ",") -> None:
        for column in columns:
            if column.type.kind in (SqlBaseType.ARRAY, SqlBaseType.MAP, SqlBaseType.STRUCT):
                raise unsupported("DELIMITED", column.type.kind)
        csv.field_size_limit(FIELD_BYTES_MAX)
        self._columns = tuple(columns)
        self._delimiter = delimiter
        self._parsers = [_parser(column.type) for column in columns]
        self._marks = rf"^[\x00-#]|[\x00- ]$|[{_character_class(delimiter)}\"\r\n]"
        self._in_quotes = re.compile(self._marks)
        self._first = rf"^[^0-9A-Za-z]|{self._marks}"
        self._first_in_quotes = re.compile(self._first)

    # Reading

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        problems: Problems = {}
        texts = self._split_all(data)
        if texts is None:
            texts = self._split_singly(data.to_pylist(), problems)
        arrays = [
            _column(values, column.type, parse, problems)
            for values, column, parse in zip(texts, self._columns, self._parsers, strict=True)
        ]
        return arrays, problems

    def _split_all(self, data: pa.Array) -> list[pa.Array] | None:
        """The fields of all lines if they are regular, else None."""
        count = len(self._columns)
        try:
            texts = data.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        if not count or not len(data):
            return None
        if pc.any(pc.match_substring_regex(texts, QUOTED)).as_py():
            return self._split_lines(texts.to_pylist())
        fields = pc.split_pattern(texts, self._delimiter)
        if not pc.all(pc.equal(pc.list_value_length(fields), count)).as_py():
            return None
        flat = fields.flatten()
        return [flat.take(pa.array(np.arange(n, len(flat), count))) for n in range(count)]

    def _split_lines(self, texts: list[str]) -> list[pa.Array] | None:
        """Uses one CSV reader for all texts. An open quote would continue into the next line: then
        there are fewer rows than texts."""
        if any("\n" in text or "\r" in text for text in texts):
            return None
        try:
            rows = list(csv.reader(texts, delimiter=self._delimiter, strict=True))
        except csv.Error:
            return None
        if len(rows) != len(texts) or {len(row) for row in rows} != {len(self._columns)}:
            return None
        return [pa.array(fields, pa.string()) for fields in zip(*rows, strict=True)]

    def _split_singly(self, data: list[bytes], problems: Problems) -> list[pa.Array]:
        rows: list[Sequence[str | None]] = []
        nothing = [None] * len(self._columns)
        for row, line in enumerate(data):
            try:
                rows.append(self._split(line))
            except ValueError as error:
                problems[row] = str(error)
                rows.append(nothing)
        columns = zip(*rows, strict=True) if rows else [()] * len(self._columns)
        return [pa.array(column, pa.string()) for column in columns]

    def read_row(self, data: bytes) -> list[Any]:
        return [
            parse(text) if text else None
            for parse, text in zip(self._parsers, self._split(data), strict=True)
        ]

    def _split(self, data: bytes) -> list[str]:
        text = data.decode()
        if '"' not in text and "\n" not in text and "\r" not in text:
            fields = text.split(self._delimiter)
        else:
            fields = self._split_quoted(text)
        if len(fields) != len(self._columns):
            raise ValueError(
                f"Unexpected field count, csvFields:{len(fields)} schemaFields:{len(self._columns)}"
            )
        return fields

    def _split_quoted(self, text: str) -> list[str]:
        try:
            lines = list(
                csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter, strict=True)
            )
        except csv.Error as error:
            raise ValueError(f"not a line of CSV: {error}") from None
        if len(lines) != 1:
            raise ValueError(f"{len(lines)} lines of CSV instead of one")
        return lines[0]

    # Writing

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        texts = []
        for number, (column, own) in enumerate(zip(columns, self._columns, strict=True)):
            text = self._quoted(_texts(column, own.type), first=number == 0)
            if number == 0:
                text = pc.if_else(pc.equal(text, ""), '""', text)
            texts.append(pc.fill_null(text, '""' if len(columns) == 1 else ""))
        if not texts:
            return pa.nulls(count, pa.binary())
        return pc.binary_join_element_wise(*texts, self._delimiter).cast(pa.binary())

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        texts = []
        for number, (value, own) in enumerate(zip(values, self._columns, strict=True)):
            text = "" if value is None else WRITERS[own.type.kind](value)
            texts.append(self._quote(text, first=number == 0) or "")
        if texts and not texts[0] and (values[0] is not None or len(texts) == 1):
            texts[0] = '""'
        return self._delimiter.join(texts).encode()

    def _quoted(self, texts: pa.Array, *, first: bool) -> pa.Array:
        """Checks a whole column at once, because most columns need no quotes."""
        marks = self._first if first else self._marks
        if not pc.any(pc.match_substring_regex(texts, marks)).as_py():
            return texts
        return pa.array([self._quote(text, first=first) for text in texts.to_pylist()], pa.string())

    def _quote(self, text: str | None, *, first: bool) -> str | None:
        """As in ksqlDB, a line begins with a letter, a digit or a quote."""
        marks = self._first_in_quotes if first else self._in_quotes
        if not text or not marks.search(text):
            return text
        doubled = text.replace('"', '""')
        return f'"{doubled}"'


def _character_class(character: str) -> str:
    return "\\" + character if character in r"\]^-" else character


def _column(
    texts: pa.Array, type_: SqlType, parse: Callable[[str], Any], problems: Problems
) -> pa.Array:
    texts = pc.if_else(pc.equal(texts, ""), None, texts)
    try:
        return _cast(texts, type_)
    except (pa.ArrowInvalid, MixedColumnError):
        pass
    parsed: list[Any] = []
    for row, text in enumerate(texts.to_pylist()):
        value = None
        if text:
            try:
                value = parse(text)
            except ValueError as error:
                problems.setdefault(row, str(error))
        parsed.append(value)
    return arrow_array(parsed, type_)


class MixedColumnError(Exception):
    """Some texts need the slow parser."""


def _cast(texts: pa.Array, type_: SqlType) -> pa.Array:
    """Casts all texts at once, where Arrow accepts exactly what `_parser` does."""
    if type_.kind is SqlBaseType.STRING:
        return texts
    if type_.kind is SqlBaseType.BOOLEAN:
        return pc.equal(pc.utf8_lower(texts), "true")
    pattern = PLAIN_NUMBERS.get(type_.kind)
    if pattern is None or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        raise MixedColumnError
    return texts.cast(arrow_type(type_))


def _parser(type_: SqlType) -> Callable[[str], Any]:
    if type_.kind is SqlBaseType.DECIMAL:
        precision, scale = type_.precision, type_.scale
        return lambda text: scalars.decimal_scalar(scalars.decimal_of(text), precision, scale)
    return PARSERS[type_.kind]


def _whole(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _point(text: str) -> float:
    stripped = text.strip()
    if not POINT.fullmatch(stripped):
        raise ValueError(f"{text!r} is not a number")
    return float(stripped.rstrip("fFdD") if not stripped.endswith("Infinity") else stripped)


def _texts(column: pa.Array, type_: SqlType) -> pa.Array:
    """The values as text; null stays null."""
    kind = type_.kind
    if kind is SqlBaseType.STRING:
        return column
    if kind is not SqlBaseType.BYTES and (kind is not SqlBaseType.DOUBLE or _is_plain(column)):
        return json_text.WRITERS[kind](column)
    write = WRITERS[kind]
    values = column.to_pylist()
    return pa.array([None if value is None else write(value) for value in values], pa.string())


def _is_plain(column: pa.Array) -> bool:
    """True if Java writes all these doubles without an exponent."""
    size = pc.abs(column)
    plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    return pc.all(plain).as_py() is not False


PARSERS: Final[dict[SqlBaseType, Callable[[str], Any]]] = {
    SqlBaseType.BOOLEAN: lambda text: text.lower() == "true",  # as Java's parseBoolean
    SqlBaseType.INTEGER: lambda text: scalars.integer_scalar(_whole(text)),
    SqlBaseType.BIGINT: lambda text: scalars.bigint_scalar(_whole(text)),
    SqlBaseType.DOUBLE: _point,
    SqlBaseType.STRING: lambda text: text,
    SqlBaseType.BYTES: scalars.bytes_of,
    SqlBaseType.DATE: lambda text: scalars.date_of(_whole(text)),
    SqlBaseType.TIME: lambda text: scalars.time_of(_whole(text)),
    SqlBaseType.TIMESTAMP: lambda text: scalars.timestamp_of(_whole(text)),
}

WRITERS: Final[dict[SqlBaseType, Callable[[Any], str]]] = {
    SqlBaseType.BOOLEAN: lambda value: "true" if value else "false",
    SqlBaseType.INTEGER: str,
    SqlBaseType.BIGINT: str,
    SqlBaseType.DOUBLE: lambda value: java_double(float(value)),
    SqlBaseType.STRING: str,
    SqlBaseType.BYTES: scalars.base64_of,
    SqlBaseType.DECIMAL: scalars.plain_decimal,
    SqlBaseType.DATE: lambda value: str(scalars.days_of(value)),
    SqlBaseType.TIME: lambda value: str(scalars.milliseconds_of(value)),
    SqlBaseType.TIMESTAMP: lambda value: str(scalars.epoch_ms_of(value)),
}
