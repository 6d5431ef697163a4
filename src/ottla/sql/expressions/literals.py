"""Literals: integers have the smallest type that holds them; with a point they are DECIMAL."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from sqlglot import exp

from ottla.rows.types import BIGINT, DOUBLE, INTEGER, STRING, SqlType, decimal
from ottla.sql.expressions.scope import Value, error_at
from ottla.sql.spark_strings import spark_string
from ottla.sql.text import Text

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


def literal(node: exp.Literal) -> Value:
    if node.is_string:
        return Value(
            STRING, Text(spark_string(node.name), repr(node.name)), node.name, nullable=False
        )
    return _number(node, node.name)


def negated(node: exp.Literal) -> Value:
    """A negative number. It is converted with its sign, because -(2**63) has no positive BIGINT."""
    return _number(node, f"-{node.name}")


def _number(node: exp.Literal, text: str) -> Value:
    if "e" in text.lower():
        double = float(text)
        if math.isinf(double):
            raise error_at(node, f"Number overflows DOUBLE: {text}")
        return _value(DOUBLE, f"{double!r}D", double)
    if "." in text:
        value = Decimal(text)
        return _value(decimal_type(value), f"({value:f}BD)", value)
    whole = int(text)
    if -INT_MAX - 1 <= whole <= INT_MAX:
        return _value(INTEGER, f"({whole})" if whole < 0 else str(whole), whole)
    if not -LONG_MAX - 1 <= whole <= LONG_MAX:
        raise error_at(
            node,
            f"Invalid numeric literal: {text}",
            remedy="Add a point or an exponent for a larger number.",
        )
    return _value(BIGINT, f"({whole}L)", whole)


def _value(type_: SqlType, spark: str, value: float | Decimal) -> Value:
    python = f"decimal('{value:f}')" if isinstance(value, Decimal) else f"({value!r})"
    return Value(type_, Text(spark, python), value, nullable=False)


def decimal_type(value: Decimal) -> SqlType:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return decimal(max(len(digits) + max(exponent, 0), scale), scale)
