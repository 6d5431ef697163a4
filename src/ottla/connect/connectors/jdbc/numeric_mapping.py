"""NUMERIC and DECIMAL columns: Connect's Decimal, or another type by `numeric.mapping`."""

from __future__ import annotations

import decimal
from typing import Final

from ottla.connect.connectors.jdbc.database import ColumnDefinition, Convert
from ottla.connect.data import Schema, Type, decimal_schema
from ottla.connect.errors import DataException

NONE: Final = "none"
PRECISION_ONLY: Final = "precision_only"
BEST_FIT: Final = "best_fit"
BEST_FIT_EAGER_DOUBLE: Final = "best_fit_eager_double"
NUMERIC_MAPPINGS: Final = (NONE, PRECISION_ONLY, BEST_FIT, BEST_FIT_EAGER_DOUBLE)

INTEGER_DIGITS_MAX: Final = 18
# The scale for a NUMERIC column without one: Connect's Decimal has one scale for all its values.
FREE_SCALE: Final = 38
_WIDE: Final = decimal.Context(prec=20_000, traps=[decimal.Inexact, decimal.InvalidOperation])


def decimal_field(column: ColumnDefinition, mapping: str) -> tuple[Schema, Convert | None]:
    primitive = _primitive(column, mapping)
    if primitive is Type.FLOAT64:
        return Schema(primitive, optional=column.nullable), float
    if primitive is not None:
        return Schema(primitive, optional=column.nullable), int
    scale = FREE_SCALE if column.scale is None else column.scale
    return decimal_schema(scale, optional=column.nullable), _scaled(column.name, scale)


def _primitive(column: ColumnDefinition, mapping: str) -> Type | None:
    """None stands for Decimal."""
    if mapping == NONE:
        return None
    if column.precision is None or column.scale is None:  # any number, so no integer type
        return None if mapping == PRECISION_ONLY else Type.FLOAT64
    if column.scale <= 0:
        return _integer(column.precision - column.scale)
    if mapping == BEST_FIT_EAGER_DOUBLE:
        return Type.FLOAT64
    if mapping == BEST_FIT and column.precision <= INTEGER_DIGITS_MAX:
        return Type.FLOAT64
    return None


def _integer(digits: int) -> Type | None:
    if digits > INTEGER_DIGITS_MAX:
        return None
    if digits > 9:
        return Type.INT64
    if digits > 4:
        return Type.INT32
    return Type.INT16 if digits > 2 else Type.INT8


def _scaled(name: str, scale: int) -> Convert:
    """Rescales values to the schema's scale, as Connect's Decimal requires."""
    unit = decimal.Decimal(1).scaleb(-scale)

    def scaled(value: decimal.Decimal | int | float | str) -> decimal.Decimal:
        number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
        try:
            if number.is_finite():
                return number.quantize(unit, context=_WIDE)
        except (decimal.Inexact, decimal.InvalidOperation):
            pass
        raise DataException(
            f"column {name}: {value} does not fit a scale of {scale};"
            " use numeric.mapping=best_fit, or a cast in `query`"
        )

    return scaled
