"""Operators: arithmetic, comparison and logic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from ottla.rows.schema import ROWTIME, WINDOWEND, WINDOWSTART
from ottla.rows.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, SqlBaseType, SqlType
from ottla.sql.casts import converted
from ottla.sql.comparable import comparable
from ottla.sql.expressions.coercion import meet
from ottla.sql.expressions.scope import Value, error_at
from ottla.sql.moments import millis_of
from ottla.sql.spark_strings import spark_cast
from ottla.sql.syntax import format_expression
from ottla.sql.text import Text, composed
from ottla.sql.widening import arithmetic_type, common_type, decimal_of

ARITHMETIC_OPERATORS: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
COMPARISON_OPERATORS: Final[dict[type[exp.Expression], tuple[str, str]]] = {
    exp.EQ: ("=", "EQUAL"),
    exp.NEQ: ("<>", "NOT_EQUAL"),
    exp.LT: ("<", "LESS_THAN"),
    exp.LTE: ("<=", "LESS_THAN_OR_EQUAL"),
    exp.GT: (">", "GREATER_THAN"),
    exp.GTE: (">=", "GREATER_THAN_OR_EQUAL"),
    exp.NullSafeNEQ: ("<=>", "IS_DISTINCT_FROM"),
    exp.NullSafeEQ: ("<=>", "IS_NOT_DISTINCT_FROM"),
}
LOGIC_OPERATORS: Final[dict[type[exp.Expression], str]] = {exp.And: "AND", exp.Or: "OR"}
MOMENTS: Final = frozenset({SqlBaseType.DATE, SqlBaseType.TIME, SqlBaseType.TIMESTAMP})
TIME_COLUMNS: Final = frozenset({ROWTIME, WINDOWSTART, WINDOWEND})


def arithmetic(node: exp.Expression, left: Value, right: Value, *, depth: int = 0) -> Value:
    """Arithmetic, which gives NULL if a side is NULL. In a lambda (`depth` > 0) the result of the
    whole call is NULL then, as in ksqlDB."""
    operator = ARITHMETIC_OPERATORS[type(node)]
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
            remedy="Use two numbers, or + with two STRINGs; CAST one side if necessary.",
        )
    type_ = arithmetic_type(operator, one, two)
    maker = "sure_arithmetic" if depth else "arithmetic"
    python = f"{maker}({operator!r}, {str(type_)!r})({left.text.python}, {right.text.python})"
    first, second = (
        converted(
            side.text, of, decimal_of(of) if type_.kind is SqlBaseType.DECIMAL else type_
        ).spark
        for side, of in ((left, one), (right, two))
    )
    if operator == "/" and type_.kind in (SqlBaseType.INTEGER, SqlBaseType.BIGINT):
        operator = "div"
    made = f"({first} {operator} {second})"
    exact = type_.kind in (SqlBaseType.BIGINT, SqlBaseType.DOUBLE) or (
        operator != "div" and one == two == type_
    )
    spark = made if exact and type_.kind is not SqlBaseType.DECIMAL else spark_cast(made, type_)
    return Value(type_, Text(spark, python))


def logic(node: exp.Expression, left: Value, right: Value, *, depth: int = 0) -> Value:
    """AND and OR. In a lambda the right side may raise, so that it is evaluated only if needed."""
    operator = LOGIC_OPERATORS[type(node)]
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
            node, f"NOT needs a BOOLEAN, but {format_expression(node.this)} is {value.type}"
        )
    python = "negation({0})" if value.nullable else "(not {0})"
    return Value(BOOLEAN, composed("(NOT {0})", python, value.text), nullable=value.nullable)


def compare(node: exp.Expression, left: Value, right: Value) -> Value:
    """A comparison, which is false, not NULL, if a side is NULL."""
    operator, name = COMPARISON_OPERATORS[type(node)]
    if left.type is None or right.type is None:
        raise error_at(
            node,
            f"Comparison with NULL not supported: {format_expression(node)}",
            remedy="Use IS NULL or IS NOT NULL.",
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
            else f"Values of type {type_.kind} have no order: use = or <>.",
        )
    sides = [converted(left.text, left.type, type_), converted(right.text, right.type, type_)]
    if type_.is_number:
        # Python compares numbers of different types exactly.
        python = f"{left.text.python}, {right.text.python}"
    else:
        python = ", ".join(side.python for side in sides)
    one, two = (comparable(side.spark, type_) for side in sides)
    if operator == "<=>":
        distinct = isinstance(node, exp.NullSafeNEQ)
        spark = f"(NOT ({one} <=> {two}))" if distinct else f"({one} <=> {two})"
        python = f"{'not ' if distinct else ''}same({str(type_)!r})({python})"
        return Value(BOOLEAN, Text(spark, f"({python})"), nullable=False)
    spark = f"coalesce(({one} {operator} {two}), false)"
    python = f"comparison({operator!r}, {str(type_)!r})({python})"
    return Value(BOOLEAN, Text(spark, python), nullable=False)


def one_of(nodes: Sequence[exp.Expression], values: Sequence[Value]) -> Value:
    """`x IN (...)`: all values are coerced to one type."""
    values = [_time_text(values[0], nodes[0], value) for value in values]
    type_, texts = meet(values, nodes, "operator does not exist")
    first, *others = (comparable(text.spark, type_) for text in texts)
    spark = f"coalesce(({first} IN ({', '.join(others)})), false)"
    listed = "".join(f"{text.python}, " for text in texts[1:])
    python = f"one_of({str(type_)!r})({texts[0].python}, ({listed}))"
    return Value(BOOLEAN, Text(spark, python), nullable=False)


def _has_order(type_: SqlType) -> bool:
    return type_.kind not in (
        SqlBaseType.ARRAY,
        SqlBaseType.MAP,
        SqlBaseType.STRUCT,
        SqlBaseType.BOOLEAN,
    )


def _compared_as(left: SqlType, right: SqlType) -> SqlType | None:
    """The type for comparing dates and times: with text, the date or time; DATE as TIMESTAMP."""
    if left.kind in MOMENTS and right.kind is SqlBaseType.STRING:
        return left
    if right.kind in MOMENTS and left.kind is SqlBaseType.STRING:
        return right
    if {left.kind, right.kind} == {SqlBaseType.DATE, SqlBaseType.TIMESTAMP}:
        return TIMESTAMP
    return common_type(left, right)


def _time_texts(node: exp.Expression, left: Value, right: Value) -> tuple[Value, Value]:
    return (
        _time_text(right, node.expression, left),
        _time_text(left, node.this, right),
    )


def _time_text(other: Value, other_node: exp.Expression, value: Value) -> Value:
    """In `ROWTIME > '2020-01-01T10:00'` the literal is converted to milliseconds."""
    is_time = isinstance(other_node, exp.Column) and other_node.name in TIME_COLUMNS
    if not is_time or value.type != STRING or not value.is_constant:
        return value
    millis = millis_of(value.constant)
    return Value(BIGINT, Text(f"{millis}L", str(millis)), millis, nullable=False)
