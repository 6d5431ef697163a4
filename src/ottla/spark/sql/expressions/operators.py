"""Arithmetic, comparison and logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from ottla.spark.sql.casts import cast_text
from ottla.spark.sql.comparing import comparable
from ottla.spark.sql.expressions.coercion import meet
from ottla.spark.sql.expressions.moments import millis_of
from ottla.spark.sql.expressions.scope import Value, error_at
from ottla.spark.sql.schema import ROWTIME, WINDOWEND, WINDOWSTART
from ottla.spark.sql.spark_text import cast
from ottla.spark.sql.syntax import format_expression
from ottla.spark.sql.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Kind, SqlType
from ottla.spark.sql.widening import arithmetic_type, common_type, decimal_of

ARITHMETIC: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
COMPARISONS: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.EQ: ("=", "EQUAL"),
    exp.NEQ: ("<>", "NOT_EQUAL"),
    exp.LT: ("<", "LESS_THAN"),
    exp.LTE: ("<=", "LESS_THAN_OR_EQUAL"),
    exp.GT: (">", "GREATER_THAN"),
    exp.GTE: (">=", "GREATER_THAN_OR_EQUAL"),
    exp.NullSafeNEQ: ("<=>", "IS_DISTINCT_FROM"),
    exp.NullSafeEQ: ("<=>", "IS_NOT_DISTINCT_FROM"),
}
LOGIC: Final[dict[type[exp.Expression], str]] = {exp.And: "AND", exp.Or: "OR"}
MOMENTS: Final = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP})
TIME_COLUMNS: Final = frozenset({ROWTIME, WINDOWSTART, WINDOWEND})


def arithmetic(node: exp.Expression, left: Value, right: Value) -> Value:
    operator = ARITHMETIC[type(node)]
    one, two = left.type, right.type
    if operator == "+" and STRING in (one, two) and {one, two} <= {STRING, None}:
        return Value(STRING, f"concat({left.text}, {right.text})")
    if one is None or two is None or not one.is_number or not two.is_number:
        raise error_at(
            node,
            f"Error processing expression: ({format_expression(node)})."
            + (
                f" Unsupported arithmetic types. {one.kind.value} {two.kind.value}"
                if one and two
                else f" Arithmetic on types {one or 'null'} and {two or 'null'} are not supported."
            ),
            remedy="Numbers with numbers, and + for two STRINGs: CAST makes the one of the other.",
        )
    type_ = arithmetic_type(operator, one, two)
    if type_.kind is Kind.DECIMAL:
        first, second = (
            cast_text(each.text, of, decimal_of(of)) for each, of in ((left, one), (right, two))
        )
    else:
        first, second = (
            cast_text(each.text, of, type_) for each, of in ((left, one), (right, two))
        )
    if operator == "/" and type_.kind in (Kind.INTEGER, Kind.BIGINT):
        operator = "div"
    text = f"({first} {operator} {second})"
    exact = type_.kind in (Kind.BIGINT, Kind.DOUBLE) or (operator != "div" and one == two == type_)
    return Value(type_, text if exact and type_.kind is not Kind.DECIMAL else cast(text, type_))


def logic(node: exp.Expression, left: Value, right: Value) -> Value:
    operator = LOGIC[type(node)]
    for part, value in ((node.this, left), (node.expression, right)):
        if value.type is not None and value.type != BOOLEAN:
            raise error_at(
                part,
                f"Unsupported arithmetic types. {operator} needs BOOLEANs, and "
                f"{format_expression(part)} is {value.type}",
            )
    return Value(BOOLEAN, f"({left.text} {operator} {right.text})")


def negation(node: exp.Expression, value: Value) -> Value:
    if value.type is not None and value.type != BOOLEAN:
        raise error_at(
            node, f"NOT needs a BOOLEAN, and {format_expression(node.this)} is {value.type}"
        )
    return Value(BOOLEAN, f"(NOT {value.text})")


def compare(node: exp.Expression, left: Value, right: Value) -> Value:
    """A comparison: false, not NULL, where a side is NULL."""
    operator, name = COMPARISONS[type(node)]
    if left.type is None or right.type is None:
        raise error_at(
            node,
            f"Comparison with NULL not supported: {format_expression(node)}",
            remedy="IS NULL and IS NOT NULL ask for that.",
        )
    left, right = _time_texts(node, left, right)
    assert left.type is not None
    assert right.type is not None
    type_ = _compared_as(left.type, right.type)
    if type_ is None or (operator not in ("=", "<>", "<=>") and not _has_order(type_)):
        raise error_at(
            node,
            f"Cannot compare {format_expression(node.this)} ({left.type}) to "
            f"{format_expression(node.expression)} ({right.type}) with {name}.",
            remedy="CAST one side to the other's type."
            if type_ is None
            else f"Values of type {type_.kind} have no order: only = and <> compare them.",
        )
    one = comparable(cast_text(left.text, left.type, type_), type_)
    two = comparable(cast_text(right.text, right.type, type_), type_)
    if operator == "<=>":
        text = f"({one} <=> {two})"
        return Value(BOOLEAN, f"(NOT {text})" if isinstance(node, exp.NullSafeNEQ) else text)
    return Value(BOOLEAN, f"coalesce(({one} {operator} {two}), false)")


def one_of(nodes: Sequence[exp.Expression], values: Sequence[Value]) -> Value:
    """`x IN (...)`: as many comparisons, all in one type."""
    values = [_time_text(values[0], nodes[0], each) for each in values]
    type_, texts = meet(values, nodes, "operator does not exist")
    first, *others = (comparable(each, type_) for each in texts)
    return Value(BOOLEAN, f"coalesce(({first} IN ({', '.join(others)})), false)")


def _has_order(type_: SqlType) -> bool:
    return type_.kind not in (Kind.ARRAY, Kind.MAP, Kind.STRUCT, Kind.BOOLEAN)


def _compared_as(left: SqlType, right: SqlType) -> SqlType | None:
    """Texts compare with dates and times as such; DATE and TIMESTAMP as moments."""
    if left.kind in MOMENTS and right.kind is Kind.STRING:
        return left
    if right.kind in MOMENTS and left.kind is Kind.STRING:
        return right
    if {left.kind, right.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    return common_type(left, right)


def _time_texts(node: exp.Expression, left: Value, right: Value) -> tuple[Value, Value]:
    return (
        _time_text(right, node.expression, left),
        _time_text(left, node.this, right),
    )


def _time_text(other: Value, other_node: exp.Expression, value: Value) -> Value:
    """`ROWTIME > '2020-01-01T10:00'`: text beside one of the time columns is a moment."""
    is_time = isinstance(other_node, exp.Column) and other_node.name in TIME_COLUMNS
    if not is_time or value.type != STRING or not value.is_constant:
        return value
    millis = millis_of(value.constant)
    return Value(BIGINT, f"{millis}L", millis)
