"""Widening: the common type of two types, and the result types of arithmetic.

INTEGER < BIGINT < DECIMAL < DOUBLE; an INTEGER is a DECIMAL(10, 0), a BIGINT a DECIMAL(19, 0).
Spark has 38 digits. A result that would need more loses digits after the point first, as in Spark.
"""

from __future__ import annotations

from typing import Final

from ottla.rows.types import SqlBaseType, SqlField, SqlType, decimal

RANKS: Final = {
    SqlBaseType.INTEGER: 0,
    SqlBaseType.BIGINT: 1,
    SqlBaseType.DECIMAL: 2,
    SqlBaseType.DOUBLE: 3,
}
DIGITS_MAX: Final = 38
SCALE_KEPT: Final = 6


def widening_distance(from_: SqlBaseType, to: SqlBaseType) -> int:
    """The number of steps to the wider type; negative if `to` is narrower."""
    return RANKS[to] - RANKS[from_]


def decimal_of(type_: SqlType) -> SqlType:
    """The DECIMAL that holds every value of an INTEGER, BIGINT or DECIMAL."""
    if type_.kind is SqlBaseType.INTEGER:
        return decimal(10, 0)
    return decimal(19, 0) if type_.kind is SqlBaseType.BIGINT else type_


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The narrowest type that both can be converted to; None if there is none."""
    if left == right:
        return left
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if left.kind is not right.kind:
        return None
    if left.kind is SqlBaseType.STRUCT:
        return _common_struct(left, right)
    if left.element is None or right.element is None:
        return None
    element = common_type(left.element, right.element)
    key = common_type(left.key, right.key) if left.key and right.key else None
    if element is None or (left.kind is SqlBaseType.MAP and key is None):
        return None
    return SqlType(left.kind, key=key, element=element)


def can_widen(from_: SqlType, to: SqlType) -> bool:
    """True if a value of type `from_` can be used as a `to` without CAST."""
    if from_ == to:
        return True
    if from_.is_number and to.is_number:
        wider = _common_number(from_, to)
        return wider == to
    return common_type(from_, to) == to


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    wider = max(left.kind, right.kind, key=RANKS.__getitem__)
    if wider is not SqlBaseType.DECIMAL:
        return SqlType(wider)
    one, two = decimal_of(left), decimal_of(right)
    scale = max(one.scale, two.scale)
    return fitted(max(one.precision - one.scale, two.precision - two.scale) + scale, scale)


def _common_struct(left: SqlType, right: SqlType) -> SqlType | None:
    """Fields of both must have a common type; fields of only one are kept."""
    fields = {field.name: field.type for field in left.fields}
    for field in right.fields:
        known = fields.get(field.name)
        meeting = common_type(known, field.type) if known else field.type
        if meeting is None:
            return None
        fields[field.name] = meeting
    return SqlType(
        SqlBaseType.STRUCT, fields=tuple(SqlField(name, type_) for name, type_ in fields.items())
    )


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of `left operator right`, for two numbers."""
    wider = max(left.kind, right.kind, key=RANKS.__getitem__)
    if wider is not SqlBaseType.DECIMAL:
        return SqlType(wider)
    one, two = decimal_of(left), decimal_of(right)
    before = max(one.precision - one.scale, two.precision - two.scale)
    if operator in "+-":
        scale = max(one.scale, two.scale)
        return fitted(before + scale + 1, scale)
    if operator == "*":
        return fitted(one.precision + two.precision + 1, one.scale + two.scale)
    if operator == "/":
        scale = max(SCALE_KEPT, one.scale + two.precision + 1)
        return fitted(one.precision - one.scale + two.scale + scale, scale)
    scale = max(one.scale, two.scale)
    return fitted(min(one.precision - one.scale, two.precision - two.scale) + scale, scale)


def fitted(precision: int, scale: int) -> SqlType:
    if precision <= DIGITS_MAX:
        return decimal(precision, scale)
    before = precision - scale
    return decimal(DIGITS_MAX, max(DIGITS_MAX - before, min(scale, SCALE_KEPT)))
