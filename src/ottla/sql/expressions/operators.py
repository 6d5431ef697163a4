"""Arithmetic, comparison and logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from ottla.rows.schema import ROWTIME, WINDOWEND, WINDOWSTART
from ottla.rows.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Kind, SqlType
from ottla.sql.casts import converted
from ottla.sql.comparing import comparable
from ottla.sql.expressions.coercion import meet
from ottla.sql.expressions.scope import Value, error_at
from ottla.sql.moments import millis_of
from ottla.sql.spark_text import cast
from ottla.sql.syntax import format_expression
from ottla.sql.text import Text, composed
from ottla.sql.widening import arithmetic_type, common_type, decimal_of

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


def arithmetic(node: exp.Expression, left: Value, right: Value, *, depth: int = 0) -> Value:
    """NULL with a NULL; in a lambda, at a `depth` above 0, all that the lambda is for is NULL then,
    as in ksqlDB."""
    operator = ARITHMETIC[type(node)]
    one, two = left.type, right.type
    if operator == "+" and STRING in (one, two) and {one, two} <= {STRING, None}:
        text = composed("concat({0}, {1})", "joined_text({0}, {1})", left.text, right.text)
        return Value(STRING, text)
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
    maker = "sure_arithmetic" if depth else "arithmetic"
    python = f"{maker}({operator!r}, {str(type_)!r})({left.text.python}, {right.text.python})"
    first, second = (
        converted(each.text, of, decimal_of(of) if type_.kind is Kind.DECIMAL else type_).spark
        for each, of in ((left, one), (right, two))
    )
    if operator == "/" and type_.kind in (Kind.INTEGER, Kind.BIGINT):
        operator = "div"
    made = f"({first} {operator} {second})"
    exact = type_.kind in (Kind.BIGINT, Kind.DOUBLE) or (operator != "div" and one == two == type_)
    spark = made if exact and type_.kind is not Kind.DECIMAL else cast(made, type_)
    return Value(type_, Text(spark, python))


def logic(node: exp.Expression, left: Value, right: Value, *, depth: int = 0) -> Value:
    """In a lambda the right side may fail, and is computed only where it counts."""
    operator = LOGIC[type(node)]
    for part, value in ((node.this, left), (node.expression, right)):
        if value.type is not None and value.type != BOOLEAN:
            raise error_at(
                part,
                f"Unsupported arithmetic types. {operator} needs BOOLEANs, and "
                f"{format_expression(part)} is {value.type}",
            )
    nullable = left.nullable or right.nullable
    if nullable and depth:
        name = "then_both" if operator == "AND" else "then_either"
        python = f"{name}({{0}}, lambda: {{1}})"
    elif nullable:
        python = "both({0}, {1})" if operator == "AND" else "either({0}, {1})"
    else:
        python = f"({{0}} {operator.lower()} {{1}})"
    text = composed(f"({{0}} {operator} {{1}})", python, left.text, right.text)
    return Value(BOOLEAN, text, nullable=nullable)


def negation(node: exp.Expression, value: Value) -> Value:
    if value.type is not None and value.type != BOOLEAN:
        raise error_at(
            node, f"NOT needs a BOOLEAN, and {format_expression(node.this)} is {value.type}"
        )
    python = "negation({0})" if value.nullable else "(not {0})"
    return Value(BOOLEAN, composed("(NOT {0})", python, value.text), nullable=value.nullable)


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
    sides = [converted(left.text, left.type, type_), converted(right.text, right.type, type_)]
    if type_.is_number:
        # Python compares numbers of all types, and exactly so.
        python = f"{left.text.python}, {right.text.python}"
    else:
        python = ", ".join(each.python for each in sides)
    one, two = (comparable(each.spark, type_) for each in sides)
    if operator == "<=>":
        distinct = isinstance(node, exp.NullSafeNEQ)
        spark = f"(NOT ({one} <=> {two}))" if distinct else f"({one} <=> {two})"
        python = f"{'not ' if distinct else ''}same({str(type_)!r})({python})"
        return Value(BOOLEAN, Text(spark, f"({python})"), nullable=False)
    spark = f"coalesce(({one} {operator} {two}), false)"
    python = f"comparison({operator!r}, {str(type_)!r})({python})"
    return Value(BOOLEAN, Text(spark, python), nullable=False)


def one_of(nodes: Sequence[exp.Expression], values: Sequence[Value]) -> Value:
    """`x IN (...)`: as many comparisons, all in one type."""
    values = [_time_text(values[0], nodes[0], each) for each in values]
    type_, texts = meet(values, nodes, "operator does not exist")
    first, *others = (comparable(each.spark, type_) for each in texts)
    spark = f"coalesce(({first} IN ({', '.join(others)})), false)"
    listed = "".join(f"{each.python}, " for each in texts[1:])
    python = f"one_of({str(type_)!r})({texts[0].python}, ({listed}))"
    return Value(BOOLEAN, Text(spark, python), nullable=False)


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
    return Value(BIGINT, Text(f"{millis}L", str(millis)), millis, nullable=False)
