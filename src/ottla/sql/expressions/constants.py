"""Constant expressions as Python values, for INSERT VALUES and keys of pull queries."""

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
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.expressions.literals import literal, negated
from ottla.sql.expressions.scope import error_at
from ottla.sql.moments import date_of, time_of, timestamp_of
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.nodes import ArrayOf, MapOf, StructOf

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
RANGES: Final = {SqlBaseType.INTEGER: 2**31, SqlBaseType.BIGINT: 2**63}


def constant(expression: exp.Expression, type_: SqlType) -> Any:
    """The value of a constant expression, converted to a type."""
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
    """The value of a constant expression, in its own type."""
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
            return [evaluate(expression) for expression in node.expressions]
        case MapOf():
            return {
                evaluate(expression.this): evaluate(expression.expression)
                for expression in node.expressions
            }
        case StructOf():
            return {
                expression.this.name: evaluate(expression.expression)
                for expression in node.expressions
            }
        case exp.Anonymous() if node.name in FUNCTIONS:
            return FUNCTIONS[node.name](*(evaluate(expression) for expression in node.expressions))
    raise error_at(
        node,
        f"{format_expression(node)} is not a constant.",
        remedy=f"Use literals, ARRAY, MAP, STRUCT, CAST, arithmetic and {', '.join(FUNCTIONS)}; "
        "for anything else use INSERT INTO ... SELECT.",
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
    """Convert a value to a type; unlike a cast, `strict` accepts no text as a number."""
    if value is None:
        return None
    match type_.kind:
        case SqlBaseType.BOOLEAN:
            return _boolean(value, strict=strict)
        case SqlBaseType.INTEGER | SqlBaseType.BIGINT:
            return _whole(value, type_, strict=strict)
        case SqlBaseType.DOUBLE:
            return float(_number(value, strict=strict))
        case SqlBaseType.DECIMAL:
            return _decimal(value, type_, strict=strict)
        case SqlBaseType.STRING:
            return _text(value, strict=strict)
        case SqlBaseType.BYTES:
            return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
        case SqlBaseType.TIME | SqlBaseType.DATE | SqlBaseType.TIMESTAMP:
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
        if type_.kind is SqlBaseType.TIME:
            return time_of(value)
        return date_of(value) if type_.kind is SqlBaseType.DATE else timestamp_of(value)
    if isinstance(value, datetime):
        if type_.kind is SqlBaseType.TIMESTAMP:
            return value
        return value.date() if type_.kind is SqlBaseType.DATE else value.time()
    if isinstance(value, date) and type_.kind is not SqlBaseType.TIME:
        midnight = datetime(value.year, value.month, value.day, tzinfo=UTC)
        return value if type_.kind is SqlBaseType.DATE else midnight
    if isinstance(value, time) and type_.kind is SqlBaseType.TIME:
        return value
    raise ValueError(value)


def _nested(value: Any, type_: SqlType, *, strict: bool) -> Any:
    if type_.kind is SqlBaseType.ARRAY and isinstance(value, list):
        assert type_.element is not None
        return [converted(item, type_.element, strict=strict) for item in value]
    if type_.kind is SqlBaseType.MAP and isinstance(value, dict):
        assert type_.key is not None
        assert type_.element is not None
        return {
            converted(key, type_.key, strict=strict): converted(entry, type_.element, strict=strict)
            for key, entry in value.items()
        }
    if type_.kind is SqlBaseType.STRUCT and isinstance(value, dict):
        # As in ksqlDB unknown fields are ignored.
        return {
            field.name: converted(value.get(field.name), field.type, strict=strict)
            for field in type_.fields
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
    "CONCAT": lambda *texts: "".join(text or "" for text in texts),
    "FROM_DAYS": lambda days: EPOCH.date() + timedelta(days=days),
    "FROM_UNIXTIME": lambda millis: EPOCH + timedelta(milliseconds=millis),
    "LCASE": lambda text: text.lower(),
    "TO_BYTES": _to_bytes,
    "UCASE": lambda text: text.upper(),
    "UNIX_TIMESTAMP": lambda: clock.time_ns() // 1_000_000,
    "UUID": lambda: str(uuid.uuid4()),
}
