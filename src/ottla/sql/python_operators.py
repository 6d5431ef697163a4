"""SQL's operators on Python values, which the Python texts of expressions call.

A comparison with NULL is false, arithmetic with NULL is NULL, and an error for a row gives NULL.
Those in `PYTHON_OPERATOR_MAKERS` are called once, when a text is compiled, and return the function
of rows.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.conversions import BITS, EXACT, converter, decimal, scaled, type_of, wrapped


class _MissingRow(dict[str, None]):
    """The missing row of an outer join: all of its columns are NULL."""

    def __missing__(self, name: str) -> None:
        return None


# -- logic


def both(one: bool | None, two: bool | None) -> bool | None:
    if one is False or two is False:
        return False
    return None if one is None or two is None else True


def either(one: bool | None, two: bool | None) -> bool | None:
    if one is True or two is True:
        return True
    return None if one is None or two is None else False


def then_both(one: bool | None, two: Callable[[], bool | None]) -> bool | None:
    return False if one is False else both(one, two())


def then_either(one: bool | None, two: Callable[[], bool | None]) -> bool | None:
    return True if one is True else either(one, two())


def negation(value: bool | None) -> bool | None:
    return None if value is None else not value


def is_known(value: Any) -> bool:
    return value is not None


# -- arithmetic


def joined_text(one: str | None, two: str | None) -> str | None:
    return None if one is None or two is None else one + two


def arithmetic(sign: str, type_: str) -> Callable[[Any, Any], Any]:
    """Arithmetic on two numbers; `type_` is the type of the result."""
    result = type_of(type_)
    if result.kind is SqlBaseType.DOUBLE:
        return _strict(DOUBLES[sign], float)
    if result.kind is SqlBaseType.DECIMAL:
        exact = DECIMALS[sign]
        return _strict(lambda a, b: _scaled(exact(a, b), result), Decimal)
    kind, whole = result.kind, WHOLES[sign]
    limit = 1 << (BITS[kind] - 1)

    def compute(a: int | None, b: int | None) -> int | None:
        if a is None or b is None:
            return None
        found = whole(a, b)
        if found is None or -limit <= found < limit:
            return found
        return wrapped(found, kind)

    return compute


def sure_arithmetic(sign: str, type_: str) -> Callable[[Any, Any], Any]:
    """For lambdas: ArithmeticError instead of NULL, so that the result of the whole call is
    NULL."""
    compute = arithmetic(sign, type_)

    def computed(a: Any, b: Any) -> Any:
        found = compute(a, b)
        if found is None:
            raise ArithmeticError
        return found

    return computed


def _strict(
    compute: Callable[[Any, Any], Any], convert: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    def computed(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        try:
            return compute(convert(a), convert(b))
        except (ArithmeticError, ValueError):
            return None

    return computed


def _scaled(number: Decimal | None, type_: SqlType) -> Decimal | None:
    return None if number is None else scaled(number, type_.precision, type_.scale)


def negative(type_: str) -> Callable[[Any], Any]:
    kind = type_of(type_).kind
    if kind in (SqlBaseType.INTEGER, SqlBaseType.BIGINT):
        return lambda number: None if number is None else wrapped(-number, kind)
    if kind is SqlBaseType.DECIMAL:
        return lambda number: None if number is None else number.copy_negate()
    return lambda number: None if number is None else -number


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


def _rest(a: int, b: int) -> int | None:
    if b == 0:
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _double_rest(a: float, b: float) -> float | None:
    if not b:
        return None
    return math.fmod(a, b) if math.isfinite(a) else math.nan


WHOLES: Final[dict[str, Callable[[int, int], int | None]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": _rest,
}
DOUBLES: Final[dict[str, Callable[[float, float], float | None]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else None,
    "%": _double_rest,
}
DECIMALS: Final[dict[str, Callable[[Decimal, Decimal], Decimal | None]]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": lambda a, b: EXACT.divide(a, b) if b else None,
    "%": lambda a, b: EXACT.remainder(a, b) if b else None,
}


# -- comparison


def comparison(sign: str, type_: str) -> Callable[[Any, Any], bool]:
    """Both sides have this type, or are numbers that Python can compare."""
    if type_of(type_).kind is not SqlBaseType.DOUBLE:
        return COMPARISONS[sign]
    compare = DOUBLE_COMPARISONS[sign]

    def compared(one: Any, two: Any) -> bool:
        return one is not None and two is not None and compare(float(one), float(two))

    return compared


def same(type_: str) -> Callable[[Any, Any], bool]:
    """IS NOT DISTINCT FROM: NULL is the same as NULL."""
    equal = comparison("=", type_)
    return lambda one, two: one is two if one is None or two is None else equal(one, two)


def one_of(type_: str) -> Callable[[Any, Iterable[Any]], bool]:
    equal = comparison("=", type_)
    return lambda value, values: any(equal(value, other) for other in values)


COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": lambda a, b: a is not None and b is not None and a == b,
    "<>": lambda a, b: a is not None and b is not None and a != b,
    "<": lambda a, b: a is not None and b is not None and a < b,
    "<=": lambda a, b: a is not None and b is not None and a <= b,
    ">": lambda a, b: a is not None and b is not None and a > b,
    ">=": lambda a, b: a is not None and b is not None and a >= b,
}
DOUBLE_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": lambda a, b: a == b or (a != a and b != b),
    "<>": lambda a, b: not (a == b or (a != a and b != b)),
    "<": lambda a, b: a < b or (b != b and a == a),
    "<=": lambda a, b: a <= b or b != b,
    ">": lambda a, b: a > b or (a != a and b == b),
    ">=": lambda a, b: a >= b or a != a,
}
"""NaN is equal to itself and greater than all numbers."""


def like(value: str | None, pattern: str | None, escape: str = "") -> bool:
    if value is None or pattern is None:
        return False
    return like_pattern(pattern, escape).fullmatch(value) is not None


@lru_cache(maxsize=1024)
def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """`%` is any text, `_` any one character."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, character)))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


# -- nested values


def field(struct: dict[str, Any] | None, name: str) -> Any:
    return None if struct is None else struct.get(name)


def element(values: list[Any] | None, index: int | None) -> Any:
    """The index counts from 1, or from the end if negative."""
    if values is None or index is None or index == 0 or abs(index) > len(values):
        return None
    return values[index - 1 if index > 0 else index]


def entry(entries: dict[Any, Any] | None, key: Any) -> Any:
    return None if entries is None or key is None else entries.get(key)


def map_of(instead: str | None, *entries: tuple[Any, Any]) -> dict[Any, Any]:
    """`instead` replaces a NULL key; without it such entries are left out."""
    keyed = ((instead if key is None else key, value) for key, value in entries)
    return {key: value for key, value in keyed if key is not None}


def epoch_ms(moment: Any) -> int | None:
    from ottla.rows.formats.scalars import epoch_ms_of

    return None if moment is None else epoch_ms_of(moment)


PYTHON_OPERATOR_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "arithmetic": arithmetic,
    "comparison": comparison,
    "converter": converter,
    "decimal": decimal,
    "negative": negative,
    "one_of": one_of,
    "same": same,
    "sure_arithmetic": sure_arithmetic,
}
OPERATORS: Final[dict[str, Any]] = {
    "NONE": _MissingRow(),
    "both": both,
    "either": either,
    "element": element,
    "entry": entry,
    "epoch_ms": epoch_ms,
    "field": field,
    "joined_text": joined_text,
    "like": like,
    "map_of": map_of,
    "is_known": is_known,
    "negation": negation,
    "then_both": then_both,
    "then_either": then_either,
}
