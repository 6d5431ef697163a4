"""CAST in Python, row by row, with the same results as `casts` in Spark SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ottla.rows.errors import SqlError
from ottla.rows.java.text import java_double
from ottla.rows.types import NUMBERS, SqlBaseType, SqlType
from ottla.sql.moments import date_of, time_of, timestamp_of

Convert: TypeAlias = Callable[[Any], Any]

EXACT: Final = Context(prec=100, rounding=ROUND_HALF_UP)
"""Python's default context would round to 28 digits."""
BITS: Final = {SqlBaseType.INTEGER: 32, SqlBaseType.BIGINT: 64}
NUMBER_TEXT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE_TEXT: Final = re.compile(r"[+-]?\d+")
DOUBLE_WORDS: Final = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}


@lru_cache(maxsize=4096)
def type_of(text: str) -> SqlType:
    from ottla.sql.syntax import parse_type

    return parse_type(text)


def converter(from_: str, to: str) -> Convert:
    """A function that converts values; types are written as in a statement."""
    convert = conversion(type_of(from_), type_of(to))

    def converted(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, ArithmeticError, SqlError):
            return None

    return converted


def conversion(from_: SqlType, to: SqlType) -> Convert:
    """A function of values that are not None; it raises or returns None if the cast fails."""
    if from_ == to:
        return lambda value: value
    if to.kind is SqlBaseType.STRING:
        return text_of(from_)
    if from_.kind is SqlBaseType.STRING:
        return _from_text(to)
    if from_.kind in NUMBERS and to.kind in NUMBERS:
        return _number(from_, to)
    if from_.kind is SqlBaseType.TIMESTAMP:
        return datetime.date if to.kind is SqlBaseType.DATE else datetime.time
    if from_.kind is SqlBaseType.DATE and to.kind is SqlBaseType.TIMESTAMP:
        return lambda day: datetime(day.year, day.month, day.day, tzinfo=UTC)
    return _nested(from_, to)


def wrapped(number: int, kind: SqlBaseType) -> int:
    """Integers that are too large wrap around, as in Java."""
    half = 1 << (BITS[kind] - 1)
    return (number + half) % (2 * half) - half


def scaled(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The number rounded half up to this scale; None if it does not fit the precision."""
    found = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return found if found.adjusted() < precision - scale or not found else None


def _number(from_: SqlType, to: SqlType) -> Convert:
    if to.kind is SqlBaseType.DOUBLE:
        return float
    if to.kind is SqlBaseType.DECIMAL:
        precision, scale = to.precision, to.scale
        if from_.kind is SqlBaseType.DOUBLE:
            return lambda number: scaled(Decimal(repr(number)), precision, scale)
        return lambda number: scaled(Decimal(number), precision, scale)
    if from_.kind is SqlBaseType.DOUBLE:
        return lambda number: whole_part(number, to.kind)
    if from_.kind is SqlBaseType.INTEGER:
        return int
    return lambda number: wrapped(int(number), to.kind)


def whole_part(number: float, kind: SqlBaseType) -> int:
    """As Java casts a double: the nearest value of the type."""
    limit = 1 << (BITS[kind] - 1)
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return limit - 1 if number > 0 else -limit
    return max(-limit, min(limit - 1, int(number)))


# -- from text


def _from_text(to: SqlType) -> Convert:
    if to.kind in BITS:
        return lambda text: _whole(text, to.kind)
    if to.kind is SqlBaseType.DECIMAL:
        return lambda text: _decimal(text, to.precision, to.scale)
    return FROM_TEXT[to.kind]


def _whole(text: str, kind: SqlBaseType) -> int | None:
    stripped = text.strip()
    if not WHOLE_TEXT.fullmatch(stripped):
        return None
    number = int(stripped)
    return number if wrapped(number, kind) == number else None


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    stripped = text.strip()
    return scaled(Decimal(stripped), precision, scale) if NUMBER_TEXT.fullmatch(stripped) else None


def _double(text: str) -> float | None:
    stripped = text.strip()
    if NUMBER_TEXT.fullmatch(stripped):
        return float(stripped)
    return DOUBLE_WORDS.get(stripped.lower())


FROM_TEXT: Final[dict[SqlBaseType, Convert]] = {
    SqlBaseType.BOOLEAN: lambda text: text.strip().lower() == "true",
    SqlBaseType.DOUBLE: _double,
    SqlBaseType.DATE: date_of,
    SqlBaseType.TIME: time_of,
    SqlBaseType.TIMESTAMP: timestamp_of,
}


# -- to text


def text_of(from_: SqlType) -> Callable[[Any], str]:
    """Text of a value, as Java's toString() writes it."""
    if from_.kind is SqlBaseType.ARRAY:
        assert from_.element is not None
        element = _shown(from_.element)
        return lambda values: "[" + ", ".join(map(element, values)) + "]"
    if from_.kind is SqlBaseType.MAP:
        assert from_.key is not None
        assert from_.element is not None
        key, value = _shown(from_.key), _shown(from_.element)
        return lambda entries: (
            "{" + ", ".join(f"{key(k)}={value(v)}" for k, v in entries.items()) + "}"
        )
    if from_.kind is SqlBaseType.STRUCT:
        fields = [(field.name, text_of(field.type)) for field in from_.fields]
        return lambda struct: _struct_text(struct, fields)
    return TO_TEXT[from_.kind]


def _shown(type_: SqlType) -> Callable[[Any], str]:
    show = text_of(type_)
    return lambda value: "null" if value is None else show(value)


def _struct_text(struct: dict[str, Any], fields: list[tuple[str, Callable[[Any], str]]]) -> str:
    """NULL fields are left out."""
    shown = [
        f"{name}={show(struct[name])}" for name, show in fields if struct.get(name) is not None
    ]
    return "Struct{" + ",".join(shown) + "}"


def time_text(value: time) -> str:
    """`10:30`, `10:30:05`, `10:30:05.010`: as short as possible, as in Java."""
    if value.microsecond:
        return value.isoformat("milliseconds")
    return value.isoformat("seconds" if value.second else "minutes")


def timestamp_text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat("T", "milliseconds")


TO_TEXT: Final[dict[SqlBaseType, Callable[[Any], str]]] = {
    SqlBaseType.STRING: str,
    SqlBaseType.BOOLEAN: lambda value: "true" if value else "false",
    SqlBaseType.INTEGER: str,
    SqlBaseType.BIGINT: str,
    SqlBaseType.DOUBLE: java_double,
    SqlBaseType.DECIMAL: lambda number: f"{number:f}",
    SqlBaseType.DATE: date.isoformat,
    SqlBaseType.TIME: time_text,
    SqlBaseType.TIMESTAMP: timestamp_text,
}


# -- nested values


def _nested(from_: SqlType, to: SqlType) -> Convert:
    if from_.kind is SqlBaseType.ARRAY:
        assert from_.element is not None
        assert to.element is not None
        element = _inner(from_.element, to.element)
        return lambda values: [element(value) for value in values]
    if from_.kind is SqlBaseType.MAP:
        assert from_.key is not None
        assert to.key is not None
        assert from_.element is not None
        assert to.element is not None
        key, value = _inner(from_.key, to.key), _inner(from_.element, to.element)
        return lambda entries: {key(k): value(v) for k, v in entries.items()}
    known = {field.name: field.type for field in from_.fields}
    fields = [
        (target.name, _inner(known[target.name], target.type) if target.name in known else _nothing)
        for target in to.fields
    ]
    return lambda struct: {name: convert(struct.get(name)) for name, convert in fields}


def _inner(from_: SqlType, to: SqlType) -> Convert:
    if from_ == to:
        return lambda value: value
    return converter(str(from_), str(to))


def _nothing(_: Any) -> None:
    return None


def decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise SqlError(f"{text} is not a number") from None
