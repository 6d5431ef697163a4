"""How types meet: which of two is the wider, and what arithmetic makes of them.

INTEGER < BIGINT < DECIMAL < DOUBLE; an INTEGER is a DECIMAL(10, 0), a BIGINT a DECIMAL(19, 0).
Spark holds 38 digits; where a result would need more, digits after the point go first, as in Spark.
"""

from __future__ import annotations

from typing import Final

from ottla.rows.types import BIGINT, DOUBLE, INTEGER, Field, Kind, SqlType, decimal

RANKS: Final = {Kind.INTEGER: 0, Kind.BIGINT: 1, Kind.DECIMAL: 2, Kind.DOUBLE: 3}
DIGITS_MAX: Final = 38
SCALE_KEPT: Final = 6


def distance(from_: Kind, to: Kind) -> int:
    """How many steps wider; below zero where it would be narrower."""
    return RANKS[to] - RANKS[from_]


def decimal_of(type_: SqlType) -> SqlType:
    """The DECIMAL that holds every value of an INTEGER, BIGINT or DECIMAL."""
    if type_.kind is Kind.INTEGER:
        return decimal(10, 0)
    return decimal(19, 0) if type_.kind is Kind.BIGINT else type_


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The narrowest type that both can be read as; None if there is none."""
    if left == right:
        return left
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if left.kind is not right.kind:
        return None
    if left.kind is Kind.STRUCT:
        return _common_struct(left, right)
    if left.element is None or right.element is None:
        return None
    element = common_type(left.element, right.element)
    key = common_type(left.key, right.key) if left.key and right.key else None
    if element is None or (left.kind is Kind.MAP and key is None):
        return None
    return SqlType(left.kind, key=key, element=element)


def can_widen(from_: SqlType, to: SqlType) -> bool:
    """Whether a value of the one may stand where the other is wanted, without CAST."""
    if from_ == to:
        return True
    if from_.is_number and to.is_number:
        wider = _common_number(from_, to)
        return wider == to
    return common_type(from_, to) == to


def _common_number(left: SqlType, right: SqlType) -> SqlType:
    wider = max(left.kind, right.kind, key=RANKS.__getitem__)
    if wider is not Kind.DECIMAL:
        return {Kind.INTEGER: INTEGER, Kind.BIGINT: BIGINT, Kind.DOUBLE: DOUBLE}[wider]
    one, two = decimal_of(left), decimal_of(right)
    scale = max(one.scale, two.scale)
    return fitted(max(one.precision - one.scale, two.precision - two.scale) + scale, scale)


def _common_struct(left: SqlType, right: SqlType) -> SqlType | None:
    """Fields that both have must meet; those of only one are kept."""
    fields = {each.name: each.type for each in left.fields}
    for each in right.fields:
        known = fields.get(each.name)
        meeting = common_type(known, each.type) if known else each.type
        if meeting is None:
            return None
        fields[each.name] = meeting
    return SqlType(Kind.STRUCT, fields=tuple(Field(name, each) for name, each in fields.items()))


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The type of `left operator right`, for two numbers."""
    wider = max(left.kind, right.kind, key=RANKS.__getitem__)
    if wider is not Kind.DECIMAL:
        return {Kind.INTEGER: INTEGER, Kind.BIGINT: BIGINT, Kind.DOUBLE: DOUBLE}[wider]
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
