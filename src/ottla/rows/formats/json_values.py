"""Converts JSON values to SQL types, by ksqlDB's rules.

Text is converted to numbers, and anything to text: a number as it was written, an object as its
JSON. Field names match regardless of case; an exact match wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson

from ottla.rows.formats import scalars
from ottla.rows.types import SqlBaseType, SqlField, SqlType

SHAPES_MAX: Final = 1000
WHOLE: Final = {
    SqlBaseType.INTEGER: (-scalars.INTEGER_MAX - 1, scalars.INTEGER_MAX),
    SqlBaseType.BIGINT: (-scalars.BIGINT_MAX - 1, scalars.BIGINT_MAX),
}

Convert = Callable[[Any], Any]


class InexactError(Exception):
    """A number's exact text is needed, but the quick parser has rounded it."""


def parse_quick(data: bytes) -> Any:
    return orjson.loads(data)


def parse_exact(data: bytes) -> Any:
    """Parses numbers with a point as Decimals, without loss."""
    try:
        return json.loads(data.decode(), parse_float=Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def wants_exact(type_: SqlType) -> bool:
    inner = [part for part in (type_.key, type_.element) if part is not None]
    inner += [field.type for field in type_.fields]
    return type_.kind is SqlBaseType.DECIMAL or any(wants_exact(part) for part in inner)


class FieldNames:
    """Maps an object's names to the columns' names, once for each shape of object."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._shapes: dict[tuple[str, ...], tuple[str | None, ...]] = {}

    def of(self, shape: tuple[str, ...]) -> tuple[str | None, ...]:
        found = self._shapes.get(shape)
        if found is None:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            found = self._shapes[shape] = self._match(shape)
        return found

    def _match(self, shape: tuple[str, ...]) -> tuple[str | None, ...]:
        present = set(shape)
        folded = {name.upper(): name for name in shape}
        return tuple(name if name in present else folded.get(name.upper()) for name in self._names)


def json_value_converter(type_: SqlType, *, exact: bool, entries: bool = False) -> Convert:
    """Parsed value -> row value. The function raises ValueError, or InexactError unless exact.

    With `entries`, a MAP may also be a list of objects with key and value, as Connect writes it.
    """
    inner = _nested(type_, exact, entries) or _scalar(type_, exact)

    def convert(value: Any) -> Any:
        return None if value is None else inner(value)

    # Nearly all values have the right type already: they take one call, not four.
    if type_.kind is SqlBaseType.STRING:
        return lambda value: value if type(value) is str else convert(value)
    if bounds := WHOLE.get(type_.kind):
        low, high = bounds
        return lambda value: (
            value if type(value) is int and low <= value <= high else convert(value)
        )
    return convert


def _scalar(type_: SqlType, exact: bool) -> Convert:
    if type_.kind is SqlBaseType.STRING:
        return _text if exact else _quick_text
    if type_.kind is SqlBaseType.DECIMAL:
        precision, scale = type_.precision, type_.scale
        return lambda value: scalars.decimal_scalar(_decimal(value, exact), precision, scale)
    return SCALARS[type_.kind]


def _nested(type_: SqlType, exact: bool, entries: bool) -> Convert | None:
    if type_.kind is SqlBaseType.STRUCT:
        return _struct(type_.fields, exact, entries)
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        return _array(json_value_converter(type_.element, exact=exact, entries=entries))
    if type_.kind is SqlBaseType.MAP:
        assert type_.element is not None
        return _map(json_value_converter(type_.element, exact=exact, entries=entries), entries)
    return None


def _struct(fields: Sequence[SqlField], exact: bool, entries: bool) -> Convert:
    names = FieldNames([field.name for field in fields])
    wanted = [
        (field.name, json_value_converter(field.type, exact=exact, entries=entries))
        for field in fields
    ]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(value, SqlBaseType.STRUCT)
        found = names.of(tuple(value))
        return {
            name: None if key is None else convert_field(value[key])
            for (name, convert_field), key in zip(wanted, found, strict=True)
        }

    return convert


def _array(element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit(value, SqlBaseType.ARRAY)
        return [element(item) for item in value]

    return convert


def _map(element: Convert, entries: bool) -> Convert:
    def convert(value: Any) -> Any:
        if entries and type(value) is list and all(map(_is_entry, value)):
            return {str(item["key"]): element(item["value"]) for item in value}
        if type(value) is not dict:
            raise _misfit(value, SqlBaseType.MAP)
        return {name: element(item) for name, item in value.items()}

    return convert


def _is_entry(value: Any) -> bool:
    return type(value) is dict and value.keys() == {"key", "value"}


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _misfit(value, SqlBaseType.BOOLEAN)
    return value


def _whole(value: Any, kind: SqlBaseType) -> int:
    """As in ksqlDB, a number is truncated."""
    if type(value) is int:
        return value
    if type(value) in (float, Decimal):
        return int(value)
    if type(value) is str:
        return int(_parsed(int, value, kind))
    raise _misfit(value, kind)


def _double(value: Any) -> float:
    if type(value) in (int, float, Decimal):
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"{value} does not fit into DOUBLE") from None
    if type(value) is str:
        return float(_parsed(float, value, SqlBaseType.DOUBLE))
    raise _misfit(value, SqlBaseType.DOUBLE)


def _decimal(value: Any, exact: bool) -> Decimal:
    if type(value) is float and not exact:
        raise InexactError
    if type(value) in (int, Decimal, float):
        return Decimal(value)
    if type(value) is str:
        return scalars.decimal_of(value)
    raise _misfit(value, SqlBaseType.DECIMAL)


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise _misfit(value, SqlBaseType.BYTES)
    return scalars.bytes_of(value)


def _quick_text(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    raise InexactError


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    return json_text(value)


def json_text(value: Any) -> str:
    """Compact JSON; numbers as they were written."""
    if isinstance(value, dict):
        fields = ",".join(f"{_quoted(key)}:{json_text(item)}" for key, item in value.items())
        return f"{{{fields}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _parsed(number: Callable[[str], Any], text: str, kind: SqlBaseType) -> Any:
    try:
        if "_" in text:  # accepted by Python, but not by JSON readers
            raise ValueError
        return number(text)
    except ValueError:
        raise ValueError(f"{text!r} is not of type {kind.value}") from None


def _misfit(value: Any, kind: SqlBaseType) -> ValueError:
    return ValueError(
        f"Can't convert type. sourceType: {_name_of(value)}, requiredType: {kind.value}"
    )


def _name_of(value: Any) -> str:
    names = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN"}
    return names.get(type(value), "NUMBER")


SCALARS: Final[dict[SqlBaseType, Convert]] = {
    SqlBaseType.BOOLEAN: _boolean,
    SqlBaseType.INTEGER: lambda value: scalars.integer_scalar(_whole(value, SqlBaseType.INTEGER)),
    SqlBaseType.BIGINT: lambda value: scalars.bigint_scalar(_whole(value, SqlBaseType.BIGINT)),
    SqlBaseType.DOUBLE: _double,
    SqlBaseType.BYTES: _bytes,
    SqlBaseType.DATE: lambda value: scalars.date_of(_whole(value, SqlBaseType.DATE)),
    SqlBaseType.TIME: lambda value: scalars.time_of(_whole(value, SqlBaseType.TIME)),
    SqlBaseType.TIMESTAMP: lambda value: scalars.timestamp_of(_whole(value, SqlBaseType.TIMESTAMP)),
}
