"""Expressions without columns as Python values: for INSERT VALUES, and the keys of pull queries."""

from __future__ import annotations

import base64
import time as clock
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import Kind, SqlType
from ottla.sql.expressions.literals import literal, negated
from ottla.sql.expressions.scope import error_at
from ottla.sql.moments import date_of, time_of, timestamp_of
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.nodes import ArrayOf, MapOf, StructOf

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RANGES: Final = {Kind.INTEGER: 2**31, Kind.BIGINT: 2**63}


def constant(expression: exp.Expression, type_: SqlType) -> Any:
    """The value of an expression without columns, as that type."""
    value = evaluate(expression)
    try:
        return converted(value, type_)
    except (ValueError, InvalidOperation, TypeError, SqlError) as error:
        raise error_at(
            expression,
            f"Expected type {type_} but got {_name_of(value)}({format_expression(expression)})",
            remedy=error.remedy if isinstance(error, SqlError) else "",
        ) from None


def evaluate(node: exp.Expression) -> Any:
    """The value of an expression, of whatever type it has by itself."""
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return literal(node).constant
        case exp.Neg(this=exp.Literal() as inner):
            return negated(inner).constant
        case exp.Neg():
            return -evaluate(node.this)
        case exp.Paren():
            return evaluate(node.this)
        case exp.Cast():
            return converted(evaluate(node.this), node.args["to"].this, strict=False)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _arithmetic(node)
        case ArrayOf():
            return [evaluate(each) for each in node.expressions]
        case MapOf():
            return {evaluate(each.this): evaluate(each.expression) for each in node.expressions}
        case StructOf():
            return {each.this.name: evaluate(each.expression) for each in node.expressions}
        case exp.Anonymous() if node.name in FUNCTIONS:
            return FUNCTIONS[node.name](*(evaluate(each) for each in node.expressions))
    raise error_at(
        node,
        f"{format_expression(node)} is no constant.",
        remedy=f"Literals, ARRAY, MAP, STRUCT, CAST, arithmetic and {', '.join(FUNCTIONS)} can be "
        "used here; for all else there is INSERT INTO ... SELECT.",
    )


def _arithmetic(node: exp.Expression) -> Any:
    left, right = evaluate(node.this), evaluate(node.expression)
    if left is None or right is None:
        return None
    if float in (type(left), type(right)):
        left, right = float(left), float(right)
    try:
        match node:
            case exp.Add():
                return left + right
            case exp.Sub():
                return left - right
            case exp.Mul():
                return left * right
            case _ if isinstance(left, int) and isinstance(right, int):
                return int(Decimal(left) / Decimal(right)) if right else None
            case _:
                return left / right if right else None
    except TypeError:
        raise error_at(node, f"Unsupported arithmetic types in {format_expression(node)}") from None


def converted(value: Any, type_: SqlType, *, strict: bool = True) -> Any:
    """A value as that type; `strict` takes no text for a number, a cast does."""
    if value is None:
        return None
    match type_.kind:
        case Kind.BOOLEAN:
            return _boolean(value, strict=strict)
        case Kind.INTEGER | Kind.BIGINT:
            return _whole(value, type_, strict=strict)
        case Kind.DOUBLE:
            return float(_number(value, strict=strict))
        case Kind.DECIMAL:
            return _decimal(value, type_, strict=strict)
        case Kind.STRING:
            return _text(value, strict=strict)
        case Kind.BYTES:
            return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
        case Kind.TIME | Kind.DATE | Kind.TIMESTAMP:
            return _moment(value, type_)
        case _:
            return _nested(value, type_, strict=strict)


def _boolean(value: Any, *, strict: bool) -> bool:
    if isinstance(value, str) and not strict:
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _number(value: Any, *, strict: bool) -> Any:
    if isinstance(value, bool) or (strict and isinstance(value, str)):
        raise ValueError(value)
    return Decimal(value) if isinstance(value, str) else value


def _whole(value: Any, type_: SqlType, *, strict: bool) -> int:
    number = _number(value, strict=strict)
    whole = int(number)
    if (strict and whole != number) or not -RANGES[type_.kind] <= whole < RANGES[type_.kind]:
        raise ValueError(value)
    return whole


def _decimal(value: Any, type_: SqlType, *, strict: bool) -> Decimal:
    number = _number(value, strict=strict)
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    rounded = exact.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > type_.precision or (strict and rounded != exact):
        raise ValueError(value)
    return rounded


def _text(value: Any, *, strict: bool) -> str:
    if isinstance(value, bytes | list | dict) or (strict and not isinstance(value, str)):
        raise ValueError(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment(value: Any, type_: SqlType) -> date | time | datetime:
    if isinstance(value, str):
        if type_.kind is Kind.TIME:
            return time_of(value)
        return date_of(value) if type_.kind is Kind.DATE else timestamp_of(value)
    if isinstance(value, datetime):
        if type_.kind is Kind.TIMESTAMP:
            return value
        return value.date() if type_.kind is Kind.DATE else value.time()
    if isinstance(value, date) and type_.kind is not Kind.TIME:
        midnight = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return value if type_.kind is Kind.DATE else midnight
    if isinstance(value, time) and type_.kind is Kind.TIME:
        return value
    raise ValueError(value)


def _nested(value: Any, type_: SqlType, *, strict: bool) -> Any:
    if type_.kind is Kind.ARRAY and isinstance(value, list):
        assert type_.element is not None
        return [converted(each, type_.element, strict=strict) for each in value]
    if type_.kind is Kind.MAP and isinstance(value, dict):
        assert type_.key is not None
        assert type_.element is not None
        return {
            converted(key, type_.key, strict=strict): converted(each, type_.element, strict=strict)
            for key, each in value.items()
        }
    if type_.kind is Kind.STRUCT and isinstance(value, dict):
        # A field that the type has not is left out, as ksqlDB does.
        return {
            each.name: converted(value.get(each.name), each.type, strict=strict)
            for each in type_.fields
        }
    raise ValueError(value)


def _name_of(value: Any) -> str:
    names = {bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE", str: "STRING", bytes: "BYTES",
             Decimal: "DECIMAL", list: "ARRAY", dict: "MAP", date: "DATE", time: "TIME",
             datetime: "TIMESTAMP"}  # fmt: skip
    return names.get(type(value), "null")


def _to_bytes(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            return bytes.fromhex(text.removeprefix("0x"))
        case "base64":
            return base64.b64decode(text)
        case "ascii":
            return text.encode("ascii", "replace")
        case _:
            return text.encode()


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "CONCAT": lambda *texts: "".join(each or "" for each in texts),
    "FROM_DAYS": lambda days: EPOCH.date() + timedelta(days=days),
    "FROM_UNIXTIME": lambda millis: EPOCH + timedelta(milliseconds=millis),
    "LCASE": lambda text: text.lower(),
    "TO_BYTES": _to_bytes,
    "UCASE": lambda text: text.upper(),
    "UNIX_TIMESTAMP": lambda: clock.time_ns() // 1_000_000,
    "UUID": lambda: str(uuid.uuid4()),
}
