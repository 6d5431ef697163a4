"""Expressions worked out in Python, row by row: the plain ones, for pull queries.

The rules are those of `expressions`: a comparison with NULL is false, and what fails for a row is
NULL. What is not known here raises NotSimple, and Spark works it out; so nothing is known here that
might come out otherwise.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot import exp

from ottla.spark.formats.scalars import epoch_ms_of
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.expressions import Scope, constant, translate
from ottla.spark.sql.schema import ROWTIME, WINDOWEND, WINDOWSTART
from ottla.spark.sql.types import TIMESTAMP, Kind, SqlType

Evaluate = Callable[[Mapping[str, Any]], Any]

TIME_COLUMNS: Final = frozenset({ROWTIME, WINDOWSTART, WINDOWEND})
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP})
NESTED: Final = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT})
WHOLE: Final = frozenset({Kind.INTEGER, Kind.BIGINT})
BITS: Final = {Kind.INTEGER: 32, Kind.BIGINT: 64}
NUMBER_TEXT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE_TEXT: Final = re.compile(r"[+-]?\d+")


class NotSimple(Exception):
    """This is for Spark."""


def evaluator(node: exp.Expression, scope: Scope) -> Evaluate:
    """A function of a row, given by column name. The expression was checked before."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise NotSimple
    return handler(node, scope)


def is_constant(node: exp.Expression) -> bool:
    return not any(isinstance(each, exp.Column | exp.Anonymous) for each in node.walk())


def constant_beside(node: exp.Expression, other: exp.Expression, scope: Scope) -> Any:
    """The value of a constant, as what it is compared with: text beside a date is a date."""
    type_ = _type_of(other, scope)
    try:
        if isinstance(other, exp.Column) and other.name in TIME_COLUMNS and _is_text(node):
            return epoch_ms_of(constant(node, TIMESTAMP))
        return constant(node, type_)
    except SqlError:
        raise NotSimple from None


def _is_text(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _type_of(node: exp.Expression, scope: Scope) -> SqlType:
    type_ = translate(node, scope).type
    if type_ is None:
        raise NotSimple
    return type_


def _column(node: exp.Expression, scope: Scope) -> Evaluate:
    scope.resolve(node)  # type: ignore[arg-type]
    return operator.itemgetter(node.name)


def _constant(node: exp.Expression, scope: Scope) -> Evaluate:
    found = translate(node, scope)
    if not found.is_constant:
        raise NotSimple
    value = found.constant
    return lambda row: value


def _negative(node: exp.Expression, scope: Scope) -> Evaluate:
    if isinstance(node.this, exp.Literal):
        return _constant(node, scope)
    kind = _type_of(node, scope).kind
    if kind not in WHOLE and kind is not Kind.DOUBLE:
        raise NotSimple
    inner = evaluator(node.this, scope)
    return _unless_null(lambda value: _fitted(-value, kind), inner)


def _paren(node: exp.Expression, scope: Scope) -> Evaluate:
    return evaluator(node.this, scope)


# -- logic


def _and(node: exp.Expression, scope: Scope) -> Evaluate:
    left, right = evaluator(node.this, scope), evaluator(node.expression, scope)

    def both(row: Mapping[str, Any]) -> bool | None:
        one = left(row)
        if one is False:
            return False
        two = right(row)
        return False if two is False else None if one is None or two is None else True

    return both


def _or(node: exp.Expression, scope: Scope) -> Evaluate:
    left, right = evaluator(node.this, scope), evaluator(node.expression, scope)

    def either(row: Mapping[str, Any]) -> bool | None:
        one = left(row)
        if one is True:
            return True
        two = right(row)
        return True if two is True else None if one is None or two is None else False

    return either


def _not(node: exp.Expression, scope: Scope) -> Evaluate:
    return _unless_null(operator.not_, evaluator(node.this, scope))


def _is(node: exp.Expression, scope: Scope) -> Evaluate:
    if not isinstance(node.expression, exp.Null):
        raise NotSimple
    inner = evaluator(node.this, scope)
    return lambda row: inner(row) is None


# -- comparisons


def _compare(node: exp.Expression, scope: Scope) -> Evaluate:
    compare = COMPARISONS[type(node)]
    left, right = _sides(node.this, node.expression, scope)

    def compared(row: Mapping[str, Any]) -> bool:
        one, two = left(row), right(row)
        return one is not None and two is not None and compare(one, two)

    return compared


def _distinct(node: exp.Expression, scope: Scope) -> Evaluate:
    left, right = _sides(node.this, node.expression, scope)
    if isinstance(node, exp.NullSafeNEQ):
        return lambda row: left(row) != right(row)
    return lambda row: left(row) == right(row)


def _between(node: exp.Expression, scope: Scope) -> Evaluate:
    low, high = node.args["low"], node.args["high"]
    above = _compare(exp.GTE(this=node.this.copy(), expression=low.copy()), scope)
    below = _compare(exp.LTE(this=node.this.copy(), expression=high.copy()), scope)
    return lambda row: above(row) and below(row)


def _sides(left: exp.Expression, right: exp.Expression, scope: Scope) -> tuple[Evaluate, Evaluate]:
    """Both sides, as values that Python compares as Spark would."""
    one, two = _type_of(left, scope), _type_of(right, scope)
    if one.is_number and two.is_number:
        sides = evaluator(left, scope), evaluator(right, scope)
        if Kind.DOUBLE in (one.kind, two.kind):
            return _unless_null(_as_double, sides[0]), _unless_null(_as_double, sides[1])
        return sides
    if one.kind is two.kind and one.kind not in NESTED:
        return evaluator(left, scope), evaluator(right, scope)
    if is_constant(right) and two.kind is Kind.STRING:
        value = constant_beside(right, left, scope)
        return evaluator(left, scope), lambda row: value
    if is_constant(left) and one.kind is Kind.STRING:
        value = constant_beside(left, right, scope)
        return lambda row: value, evaluator(right, scope)
    raise NotSimple


def _as_double(number: Any) -> tuple[bool, float]:
    """A DECIMAL 0.1 is the same as a DOUBLE 0.1, and NaN is equal to itself and above all."""
    double = float(number)
    return (True, 0.0) if math.isnan(double) else (False, double)


def _in(node: exp.Expression, scope: Scope) -> Evaluate:
    kind = _type_of(node.this, scope).kind
    if kind in NESTED or not all(is_constant(each) for each in node.expressions):
        raise NotSimple
    values = {
        constant_beside(each, node.this, scope)
        for each in node.expressions
        if not isinstance(each, exp.Null)
    }
    inner = evaluator(node.this, scope)

    def one_of(row: Mapping[str, Any]) -> bool:
        value = inner(row)
        return value is not None and value in values

    return one_of


def _like(node: exp.Expression, scope: Scope, escape: str = "") -> Evaluate:
    if not _is_text(node.expression):
        raise NotSimple
    pattern = like_pattern(node.expression.name, escape)
    inner = evaluator(node.this, scope)

    def like(row: Mapping[str, Any]) -> bool:
        value = inner(row)
        return value is not None and pattern.fullmatch(value) is not None

    return like


def _escape(node: exp.Expression, scope: Scope) -> Evaluate:
    if len(node.expression.name) != 1:
        raise NotSimple
    return _like(node.this, scope, node.expression.name)


def like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """`%` is any text, `_` any one character."""
    parts = []
    characters = iter(pattern)
    for each in characters:
        if escape and each == escape:
            following = next(characters, None)
            if following is None or following not in ("%", "_", escape):
                raise NotSimple  # for Spark to complain about
            parts.append(re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(each) or re.escape(each))
    return re.compile("".join(parts), re.DOTALL)


# -- values


def _arithmetic(node: exp.Expression, scope: Scope) -> Evaluate:
    kind = _type_of(node, scope).kind
    left, right = evaluator(node.this, scope), evaluator(node.expression, scope)
    if kind is Kind.STRING:
        return _of_two(operator.add, left, right)
    if kind is Kind.DOUBLE:
        compute = DOUBLES[type(node)]
        return _of_two(lambda a, b: compute(float(a), float(b)), left, right)
    if kind not in WHOLE:
        raise NotSimple
    whole = WHOLES[type(node)]
    return _of_two(lambda a, b: _fitted(whole(a, b), kind), left, right)


def _fitted(number: Any, kind: Kind) -> Any:
    """Whole numbers that are too large wrap, as Java's do."""
    if number is None or kind not in BITS:
        return number
    half = 1 << (BITS[kind] - 1)
    return (number + half) % (2 * half) - half


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


def _double_rest(a: float, b: float) -> float:
    return math.fmod(a, b) if math.isfinite(a) else math.nan


def _dot(node: exp.Expression, scope: Scope) -> Evaluate:
    inner = evaluator(node.this, scope)
    name = node.expression.name
    return _unless_null(lambda value: value.get(name), inner)


def _bracket(node: exp.Expression, scope: Scope) -> Evaluate:
    inner = evaluator(node.this, scope)
    of = _type_of(node.this, scope)
    (index_node,) = node.expressions
    if of.kind is Kind.MAP:
        assert of.key is not None
        if _type_of(index_node, scope).kind is not of.key.kind:
            raise NotSimple
        return _of_two(lambda value, key: value.get(key), inner, evaluator(index_node, scope))
    return _of_two(_element, inner, evaluator(index_node, scope))


def _element(values: list[Any], index: int) -> Any:
    """Counted from 1, or from the end."""
    if index == 0 or abs(index) > len(values):
        return None
    return values[index - 1 if index > 0 else index]


def _cast(node: exp.Expression, scope: Scope) -> Evaluate:
    wanted: SqlType = node.args["to"].this
    if isinstance(node.this, exp.Null):
        return lambda row: None
    given = _type_of(node.this, scope)
    inner = evaluator(node.this, scope)
    if given == wanted:
        return inner
    convert = CASTS.get((given.kind, wanted.kind))
    if convert is None:
        raise NotSimple
    return _unless_null(convert, inner)


def _text_to_whole(kind: Kind) -> Callable[[str], int | None]:
    def convert(text: str) -> int | None:
        stripped = text.strip()
        if not WHOLE_TEXT.fullmatch(stripped):
            return None
        number = int(stripped)
        return number if _fitted(number, kind) == number else None

    return convert


def _text_to_double(text: str) -> float | None:
    stripped = text.strip()
    return float(stripped) if NUMBER_TEXT.fullmatch(stripped) else None


def _case(node: exp.Expression, scope: Scope) -> Evaluate:
    wanted = _type_of(node, scope)
    branches = []
    for each in node.args["ifs"]:
        asked = each.this
        if node.this:
            asked = exp.EQ(this=node.this.copy(), expression=each.this.copy())
        branches.append((evaluator(asked, scope), _result(each.args["true"], wanted, scope)))
    default = node.args.get("default")
    otherwise = _result(default, wanted, scope) if default else lambda row: None

    def case(row: Mapping[str, Any]) -> Any:
        for asked, result in branches:
            if asked(row) is True:
                return result(row)
        return otherwise(row)

    return case


def _result(node: exp.Expression, wanted: SqlType, scope: Scope) -> Evaluate:
    """One of several results: only where no conversion is needed."""
    if isinstance(node, exp.Null):
        return lambda row: None
    if _type_of(node, scope) != wanted:
        raise NotSimple
    return evaluator(node, scope)


# -- functions


def _call(node: exp.Expression, scope: Scope) -> Evaluate:
    name = node.name
    arguments = [evaluator(each, scope) for each in node.expressions]
    types = [_type_of(each, scope) for each in node.expressions]
    if name in ("COALESCE", "IFNULL", "NULLIF") and len(set(types)) == 1:
        return _null_function(name, arguments, types[0])
    if (name, types[0].kind if len(types) == 1 else None) in FUNCTIONS:
        return _unless_null(FUNCTIONS[name, types[0].kind], arguments[0])
    if name == "AS_VALUE" and len(arguments) == 1:
        return arguments[0]
    raise NotSimple


def _null_function(name: str, arguments: list[Evaluate], type_: SqlType) -> Evaluate:
    if name != "NULLIF":
        return lambda row: next(
            (value for each in arguments if (value := each(row)) is not None), None
        )
    if type_.kind in NESTED:
        raise NotSimple
    first, second = arguments

    def null_if(row: Mapping[str, Any]) -> Any:
        value = first(row)
        return None if value == second(row) else value

    return null_if


def _unless_null(compute: Callable[[Any], Any], inner: Evaluate) -> Evaluate:
    def unless_null(row: Mapping[str, Any]) -> Any:
        value = inner(row)
        return None if value is None else compute(value)

    return unless_null


def _of_two(compute: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    def of_two(row: Mapping[str, Any]) -> Any:
        one, two = left(row), right(row)
        return None if one is None or two is None else compute(one, two)

    return of_two


def _whole_part(kind: Kind) -> Callable[[float], int | None]:
    """As Java casts a double: what does not fit is the nearest that does."""
    limit = 1 << (BITS[kind] - 1)

    def convert(number: float) -> int:
        if math.isnan(number):
            return 0
        if math.isinf(number):
            return limit - 1 if number > 0 else -limit
        return max(-limit, min(limit - 1, int(number)))

    return convert


DOUBLES: Final[dict[type[exp.Expression], Callable[[float, float], float | None]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: lambda a, b: a / b if b else None,
    exp.Mod: lambda a, b: _double_rest(a, b) if b else None,
}
WHOLES: Final[dict[type[exp.Expression], Callable[[int, int], int | None]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: _quotient,
    exp.Mod: _rest,
}
COMPARISONS: Final[dict[type[exp.Expression], Callable[[Any, Any], bool]]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
FUNCTIONS: Final[dict[tuple[str, Kind | None], Callable[[Any], Any]]] = {
    ("UCASE", Kind.STRING): str.upper,
    ("LCASE", Kind.STRING): str.lower,
    ("LEN", Kind.STRING): len,
    ("LEN", Kind.BYTES): len,
    ("ARRAY_LENGTH", Kind.ARRAY): len,
    ("ABS", Kind.DOUBLE): abs,
    ("ABS", Kind.INTEGER): lambda number: _fitted(abs(number), Kind.INTEGER),
    ("ABS", Kind.BIGINT): lambda number: _fitted(abs(number), Kind.BIGINT),
}
CASTS: Final[dict[tuple[Kind, Kind], Callable[[Any], Any]]] = {
    (Kind.INTEGER, Kind.STRING): str,
    (Kind.BIGINT, Kind.STRING): str,
    (Kind.BOOLEAN, Kind.STRING): lambda value: "true" if value else "false",
    (Kind.INTEGER, Kind.BIGINT): lambda number: number,
    (Kind.BIGINT, Kind.INTEGER): lambda number: _fitted(number, Kind.INTEGER),
    (Kind.INTEGER, Kind.DOUBLE): float,
    (Kind.BIGINT, Kind.DOUBLE): float,
    (Kind.DECIMAL, Kind.DOUBLE): float,
    (Kind.DOUBLE, Kind.INTEGER): _whole_part(Kind.INTEGER),
    (Kind.DOUBLE, Kind.BIGINT): _whole_part(Kind.BIGINT),
    (Kind.STRING, Kind.INTEGER): _text_to_whole(Kind.INTEGER),
    (Kind.STRING, Kind.BIGINT): _text_to_whole(Kind.BIGINT),
    (Kind.STRING, Kind.DOUBLE): _text_to_double,
}
HANDLERS: Final[dict[type[exp.Expression], Callable[[exp.Expression, Scope], Evaluate]]] = {
    exp.Column: _column,
    exp.Literal: _constant,
    exp.Boolean: _constant,
    exp.Null: lambda node, scope: lambda row: None,
    exp.Neg: _negative,
    exp.Paren: _paren,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeEQ: _distinct,
    exp.NullSafeNEQ: _distinct,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.Case: _case,
    exp.Anonymous: _call,
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(DOUBLES, _arithmetic),
}
