"""What JSON has in it, as values of the SQL's types, by ksqlDB's rules.

Text is taken for a number where a number is wanted, and anything for text: a number as it stands,
an object as its JSON. Names of fields match whatever their case; an exact match wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import orjson

from ottla.rows.formats import scalars
from ottla.rows.types import Field, Kind, SqlType

SHAPES_MAX: Final = 1000
WHOLE: Final = {
    Kind.INTEGER: (-scalars.INTEGER_MAX - 1, scalars.INTEGER_MAX),
    Kind.BIGINT: (-scalars.BIGINT_MAX - 1, scalars.BIGINT_MAX),
}

Convert = Callable[[Any], Any]


class InexactError(Exception):
    """A number is wanted as it was written: the quick parser has rounded it."""


def parse_quick(data: bytes) -> Any:
    return orjson.loads(data)


def parse_exact(data: bytes) -> Any:
    """Numbers with a point are Decimals, so that nothing of them is lost."""
    try:
        return json.loads(data.decode(), parse_float=Decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def wants_exact(type_: SqlType) -> bool:
    inner = [each for each in (type_.key, type_.element) if each is not None]
    inner += [each.type for each in type_.fields]
    return type_.kind is Kind.DECIMAL or any(wants_exact(each) for each in inner)


class Names:
    """Which of an object's names is which of ours. Objects of one shape are matched once."""

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
        folded = {each.upper(): each for each in shape}
        return tuple(each if each in present else folded.get(each.upper()) for each in self._names)


def converter(type_: SqlType, *, exact: bool, entries: bool = False) -> Convert:
    """Value as parsed -> value as a row has it. Raises ValueError; InexactError unless exact.

    With `entries` a MAP may also be a list of objects of a key and a value, as Connect writes it.
    """
    inner = _nested(type_, exact, entries) or _scalar(type_, exact)

    def convert(value: Any) -> Any:
        return None if value is None else inner(value)

    # Nearly all values are as they should be: these take one call, not four.
    if type_.kind is Kind.STRING:
        return lambda value: value if type(value) is str else convert(value)
    if bounds := WHOLE.get(type_.kind):
        low, high = bounds
        return lambda value: (
            value if type(value) is int and low <= value <= high else convert(value)
        )
    return convert


def _scalar(type_: SqlType, exact: bool) -> Convert:
    if type_.kind is Kind.STRING:
        return _text if exact else _quick_text
    if type_.kind is Kind.DECIMAL:
        precision, scale = type_.precision, type_.scale
        return lambda value: scalars.fitted(_decimal(value, exact), precision, scale)
    return SCALARS[type_.kind]


def _nested(type_: SqlType, exact: bool, entries: bool) -> Convert | None:
    if type_.kind is Kind.STRUCT:
        return _struct(type_.fields, exact, entries)
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        return _array(converter(type_.element, exact=exact, entries=entries))
    if type_.kind is Kind.MAP:
        assert type_.element is not None
        return _map(converter(type_.element, exact=exact, entries=entries), entries)
    return None


def _struct(fields: Sequence[Field], exact: bool, entries: bool) -> Convert:
    names = Names([each.name for each in fields])
    wanted = [(each.name, converter(each.type, exact=exact, entries=entries)) for each in fields]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise _misfit(value, Kind.STRUCT)
        found = names.of(tuple(value))
        return {
            name: None if key is None else convert_field(value[key])
            for (name, convert_field), key in zip(wanted, found, strict=True)
        }

    return convert


def _array(element: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise _misfit(value, Kind.ARRAY)
        return [element(each) for each in value]

    return convert


def _map(element: Convert, entries: bool) -> Convert:
    def convert(value: Any) -> Any:
        if entries and type(value) is list and all(map(_is_entry, value)):
            return {str(each["key"]): element(each["value"]) for each in value}
        if type(value) is not dict:
            raise _misfit(value, Kind.MAP)
        return {name: element(each) for name, each in value.items()}

    return convert


def _is_entry(value: Any) -> bool:
    return type(value) is dict and value.keys() == {"key", "value"}


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _misfit(value, Kind.BOOLEAN)
    return value


def _whole(value: Any, kind: Kind) -> int:
    """A number loses what is behind its point, as in ksqlDB."""
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
        return float(_parsed(float, value, Kind.DOUBLE))
    raise _misfit(value, Kind.DOUBLE)


def _decimal(value: Any, exact: bool) -> Decimal:
    if type(value) is float and not exact:
        raise InexactError
    if type(value) in (int, Decimal, float):
        return Decimal(value)
    if type(value) is str:
        return scalars.decimal_of(value)
    raise _misfit(value, Kind.DECIMAL)


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise _misfit(value, Kind.BYTES)
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
        fields = ",".join(f"{_quoted(key)}:{json_text(each)}" for key, each in value.items())
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


def _parsed(number: Callable[[str], Any], text: str, kind: Kind) -> Any:
    try:
        if "_" in text:  # which Python takes, and JSON's readers don't
            raise ValueError
        return number(text)
    except ValueError:
        raise ValueError(f"{text!r} is not of type {kind.value}") from None


def _misfit(value: Any, kind: Kind) -> ValueError:
    return ValueError(
        f"Can't convert type. sourceType: {_name_of(value)}, requiredType: {kind.value}"
    )


def _name_of(value: Any) -> str:
    names = {dict: "OBJECT", list: "ARRAY", str: "STRING", bool: "BOOLEAN"}
    return names.get(type(value), "NUMBER")


SCALARS: Final[dict[Kind, Convert]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: lambda value: scalars.integer(_whole(value, Kind.INTEGER)),
    Kind.BIGINT: lambda value: scalars.bigint(_whole(value, Kind.BIGINT)),
    Kind.DOUBLE: _double,
    Kind.BYTES: _bytes,
    Kind.DATE: lambda value: scalars.date_of(_whole(value, Kind.DATE)),
    Kind.TIME: lambda value: scalars.time_of(_whole(value, Kind.TIME)),
    Kind.TIMESTAMP: lambda value: scalars.timestamp_of(_whole(value, Kind.TIMESTAMP)),
}
