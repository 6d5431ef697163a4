"""Implicit coercion: numbers are widened, and literals are read as the required type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, SqlBaseType, SqlType
from ottla.sql.casts import converted
from ottla.sql.expressions.literals import INT_MAX, LONG_MAX, decimal_type
from ottla.sql.expressions.scope import Value, error_at
from ottla.sql.moments import date_of, time_of, timestamp_of
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.nodes import ArrayOf, MapOf, StructOf, TypeNode
from ottla.sql.text import Text, null_text
from ottla.sql.widening import can_widen, common_type


def coerced(value: Value, wanted: SqlType, node: exp.Expression) -> Text:
    """Coerce a value to a type; SqlError if that needs a CAST."""
    if value.type is None:
        return null_text(wanted)
    read = as_literal(value, wanted)
    if not can_widen(read, wanted) and not (value.is_constant and wanted == STRING):
        raise error_at(
            node,
            f"Expected {wanted}, but {format_expression(node)} is {value.type}",
            remedy=f"Perhaps CAST({format_expression(node)} AS {wanted}).",
        )
    return _coercion(value, wanted)


def meet(
    values: Sequence[Value], nodes: Sequence[exp.Expression], complaint: str = ""
) -> tuple[SqlType, list[Text]]:
    """The common type of expressions, and their texts cast to it.

    The first type that is not NULL decides how STRING literals are read."""
    common: SqlType | None = None
    for value, node in zip(values, nodes, strict=True):
        if value.type is None:
            continue
        if common is None:
            common = value.type
            continue
        read = STRING if value.is_constant and common == STRING else as_literal(value, common)
        wider = common_type(common, read)
        if wider is None:
            raise error_at(
                node,
                f"{complaint or 'operator does not exist'}: {common} = {value.type} "
                f"({format_expression(node)})",
                remedy="Hint: You might need to add explicit type casts.",
            )
        common = wider
    if common is None:
        raise error_at(
            nodes[0],
            "Can't infer a type of null. Please explicitly cast it to a required type, "
            "e.g. CAST(null AS VARCHAR).",
        )
    return common, [null_text(common) if e.type is None else _coercion(e, common) for e in values]


def _coercion(value: Value, wanted: SqlType) -> Text:
    """The value as that type. A prefix of TRUE is enough for a literal, while CAST needs the
    word."""
    assert value.type is not None
    if wanted.kind is SqlBaseType.BOOLEAN and value.type == STRING and value.is_constant:
        true = _is_true(value.constant)
        return Text("true" if true else "false", repr(true))
    return converted(value.text, value.type, wanted)


def as_literal(value: Value, wanted: SqlType) -> SqlType:
    """The type of a value next to values of type `wanted`; a STRING literal is read as that
    type."""
    assert value.type is not None
    if value.type != STRING or not value.is_constant or wanted == STRING:
        return value.type
    text: str = value.constant
    try:
        if wanted.is_number:
            return _number_type(text, wanted)
        if wanted.kind is SqlBaseType.BOOLEAN:
            return _boolean_type(text)
        if wanted.kind in (SqlBaseType.DATE, SqlBaseType.TIME, SqlBaseType.TIMESTAMP):
            {
                SqlBaseType.DATE: date_of,
                SqlBaseType.TIME: time_of,
                SqlBaseType.TIMESTAMP: timestamp_of,
            }[wanted.kind](text)
            return wanted
    except (InvalidOperation, ValueError):
        raise SqlError(f'invalid input syntax for type {wanted.kind}: "{text}".') from None
    return value.type


def read_literals(node: exp.Expression, wanted: SqlType | None) -> exp.Expression:
    """Read STRING literals inside as the required type: `ARRAY['3']` next to an ARRAY<BIGINT>."""
    if wanted is None or not isinstance(node, ArrayOf | MapOf | StructOf):
        return node
    copy = node.copy()
    if isinstance(node, ArrayOf):
        copy.set(
            "expressions", [_read(expression, wanted.element) for expression in copy.expressions]
        )
        return copy
    fields = {field.name: field.type for field in wanted.fields}
    for pair in copy.expressions:
        inner = fields.get(pair.this.name) if isinstance(node, StructOf) else wanted.element
        pair.set("expression", _read(pair.expression, inner))
        if isinstance(node, MapOf):
            pair.set("this", _read(pair.this, wanted.key))
    return copy


def _read(node: exp.Expression, wanted: SqlType | None) -> exp.Expression:
    if not isinstance(node, exp.Literal) or not node.is_string or wanted in (None, STRING):
        return read_literals(node, wanted)
    assert wanted is not None
    value = Value(STRING, Text("", ""), node.name)
    as_literal(value, wanted)
    if wanted == BOOLEAN:
        return exp.Boolean(this=_is_true(node.name))
    return exp.Cast(this=node, to=TypeNode(this=wanted))


def _is_true(text: str) -> bool:
    return text.strip().lower()[0] in "ty"


def _number_type(text: str, wanted: SqlType) -> SqlType:
    number = Decimal(text.strip())
    if wanted.kind is SqlBaseType.DOUBLE or "e" in text.lower():
        return DOUBLE
    if number == number.to_integral_value() and wanted.kind is not SqlBaseType.DECIMAL:
        whole = abs(int(number))
        if whole <= LONG_MAX:
            return INTEGER if whole <= INT_MAX else BIGINT
    return decimal_type(number)


def _boolean_type(text: str) -> SqlType:
    lowered = text.strip().lower()
    if lowered and any(word.startswith(lowered) for word in ("true", "false", "yes", "no")):
        return BOOLEAN
    raise ValueError(text)
