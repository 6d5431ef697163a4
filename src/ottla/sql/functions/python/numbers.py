"""Numeric functions with Java's results: NaN if undefined, Infinity if too large."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal
from typing import Any, Final

from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.conversions import EXACT, scaled, whole_part, wrapped

KILOMETRES: Final = 6371.0
MILES: Final = 3959.0


def of_double(function: Callable[..., float]) -> Callable[..., float]:
    def computed(*values: float) -> float:
        try:
            return function(*values)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return computed


def absolute(returns: SqlType, _: SqlType) -> Callable[[Any], Any]:
    kind = returns.kind
    if kind in (SqlBaseType.INTEGER, SqlBaseType.BIGINT):
        return lambda number: wrapped(abs(number), kind)
    return lambda number: number.copy_abs() if kind is SqlBaseType.DECIMAL else abs(number)


def rounded_up(returns: SqlType, _: SqlType) -> Callable[[Any], Any]:
    return _whole(returns, math.ceil, ROUND_CEILING)


def rounded_down(returns: SqlType, _: SqlType) -> Callable[[Any], Any]:
    return _whole(returns, math.floor, ROUND_FLOOR)


def _whole(returns: SqlType, of: Callable[[float], int], rounding: str) -> Callable[[Any], Any]:
    if returns.kind is SqlBaseType.DECIMAL:
        one = Decimal(1)
        return lambda number: scaled(
            number.quantize(one, rounding, EXACT), returns.precision, returns.scale
        )
    if returns.kind is SqlBaseType.DOUBLE:
        return lambda number: float(of(number)) if math.isfinite(number) else number
    return lambda number: number


def nearest(number: float) -> int:
    """Java's Math.round: half up."""
    if not math.isfinite(number):
        return whole_part(number, SqlBaseType.BIGINT)
    return whole_part(math.floor(number + 0.5), SqlBaseType.BIGINT)


def cut_off(number: float) -> int:
    return whole_part(number, SqlBaseType.BIGINT)


def scaled_by(
    rule: Callable[[Decimal, Decimal], Decimal],
) -> Callable[..., Callable[[Any, int], Any]]:
    """Round as Decimal, because 1.005 is not exact in binary."""

    def make(returns: SqlType, *_: SqlType) -> Callable[..., Any]:
        def compute(number: Any, scale: int = 0) -> Any:
            if isinstance(number, float):
                if not math.isfinite(number):
                    return number
                return float(rule(Decimal(repr(number)), Decimal(1).scaleb(-scale)))
            exact = rule(number, Decimal(1).scaleb(-scale))
            return scaled(exact, returns.precision, returns.scale)

        return compute

    return make


def _to_nearest(number: Decimal, unit: Decimal) -> Decimal:
    half = EXACT.divide(unit, Decimal(2))
    return EXACT.add(number, half).quantize(unit, ROUND_FLOOR, EXACT)


def _to_zero(number: Decimal, unit: Decimal) -> Decimal:
    return number.quantize(unit, ROUND_DOWN, EXACT)


round_to = scaled_by(_to_nearest)
cut_to = scaled_by(_to_zero)


def sign(number: Any) -> int:
    return int(number > 0) - int(number < 0)


def logarithm(number: float) -> float:
    if number > 0:
        return math.log(number)
    return -math.inf if number == 0 else math.nan


def logarithm_to(base: float, number: float) -> float:
    if base <= 0 or base == 1 or number < 0:
        return math.nan
    return -math.inf if number == 0 else math.log(number) / math.log(base)


def power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent == int(exponent) and int(exponent) % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def sinh(angle: float) -> float:
    try:
        return math.sinh(angle)
    except OverflowError:
        return math.copysign(math.inf, angle)


def cotangent(angle: float) -> float:
    tangent = math.tan(angle)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


def degrees(angle: float) -> float:
    """As in Java: multiplied by one factor."""
    return angle * (180.0 / math.pi)


def radians(angle: float) -> float:
    return angle * (math.pi / 180.0)


def _radians(angle: float) -> float:
    """Radians for GEO_DISTANCE, whose last digits differ from those of RADIANS in ksqlDB."""
    return angle / 180.0 * math.pi


def distance(
    lat1: float, lon1: float, lat2: float, lon2: float, unit: str | None = None
) -> float | None:
    """The great-circle distance by the haversine formula."""
    if None in (lat1, lon1, lat2, lon2):
        return None
    named = (unit or "KM").upper()
    if not named.startswith(("KM", "MI")):
        return None
    radius = MILES if named.startswith("MI") else KILOMETRES
    half_lat, half_lon = _radians(lat2 - lat1) / 2, _radians(lon2 - lon1) / 2
    across = math.sin(half_lon) ** 2 * math.cos(_radians(lat1)) * math.cos(_radians(lat2))
    straight = math.sin(half_lat) ** 2 + across
    return 2 * math.asin(math.sqrt(straight)) * radius


def greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), key=_order, default=None)


def least(*values: Any) -> Any:
    return min((value for value in values if value is not None), key=_order, default=None)


def _order(value: Any) -> Any:
    """The sort key of a number; NaN is the largest."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def pi() -> float:
    return math.pi


def random_number() -> float:
    return random.random()
