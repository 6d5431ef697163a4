"""Numeric functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ottla.rows.types import SqlBaseType, SqlType, decimal
from ottla.sql.functions.function_registry import Call, Function
from ottla.sql.functions.python import numbers as python
from ottla.sql.functions.python_form import by_types, with_nulls
from ottla.sql.functions.scalar import numbers, scalar, signature

FAMILY: Final = "Numeric"
NAN: Final = "CAST('NaN' AS double)"
MINUS_INFINITY: Final = "CAST('-Infinity' AS double)"
KILOMETRES: Final = "6371.0D"
MILES: Final = "3959.0D"
WHOLE_FROM: Final = "4503599627370496.0D"
"""DOUBLEs from here on have no digits after the point."""


def _scaled(call: Call, rule: str) -> str:
    """Round as DECIMAL, because 1.005 is not exact in binary."""
    value, scale = call.texts[0], call.constants[1]
    type_ = call.types[0]
    assert type_ is not None
    if not isinstance(scale, int):
        return f"CAST(round({value}, {call.texts[1]}) AS {call.returns.spark})"
    exact = f"CAST({value} AS decimal(38,18))" if type_.kind is SqlBaseType.DOUBLE else value
    text = rule.format(exact, scale=scale, half=f"CAST('5e{-scale - 1}' AS decimal(38,18))")
    cast = f"CAST({text} AS {call.returns.spark})"
    return f"coalesce({cast}, {value})" if type_.kind is SqlBaseType.DOUBLE else cast


def _round(call: Call) -> str:
    return _scaled(call, "floor({0} + {half}, {scale})")


def _truncate(call: Call) -> str:
    return _scaled(call, "IF({0} < 0, ceil({0}, {scale}), floor({0}, {scale}))")


def _to_whole(spark: str) -> Callable[[Call], str]:
    """CEIL or FLOOR. Spark's return BIGINTs, which have no NaN and can't hold large DOUBLEs."""

    def of(call: Call) -> str:
        (value,) = call.texts
        made = f"CAST({spark}({value}) AS {call.returns.spark})"
        if call.returns.kind is not SqlBaseType.DOUBLE:
            return made
        return f"IF(isnan({value}) OR abs({value}) >= {WHOLE_FROM}, {value}, {made})"

    return of


def _whole(types: Sequence[SqlType | None]) -> SqlType:
    """Of a DECIMAL(33, 16), a DECIMAL(17, 0)."""
    type_ = types[0]
    assert type_ is not None
    return decimal(max(type_.precision - type_.scale, 1), 0)


def _of_double(
    name: str, spark: str, description: str, compute: Callable[[float], float]
) -> Function:
    form = python.of_double(compute)
    return scalar(
        name, FAMILY, description, signature("DOUBLE value -> DOUBLE", spark, python=form)
    )


def _distance(radius: str) -> str:
    """Along a great circle, by the haversine formula."""
    a = (
        "pow(sin(({2} - {0}) / 180.0D * pi() / 2), 2)"
        " + pow(sin(({3} - {1}) / 180.0D * pi() / 2), 2)"
        " * cos({0} / 180.0D * pi()) * cos({2} / 180.0D * pi())"
    )
    return f"(2 * asin(sqrt({a})) * {radius})"


GEO_UNIT: Final = (
    f"CASE WHEN upper({{4}}) LIKE 'MI%' THEN {MILES} "
    f"WHEN {{4}} IS NULL OR upper({{4}}) LIKE 'KM%' THEN {KILOMETRES} END"
)
LN: Final = (
    f"CASE WHEN {{0}} > 0 THEN ln({{0}}) WHEN {{0}} = 0 THEN {MINUS_INFINITY} "
    f"WHEN {{0}} < 0 THEN {NAN} END"
)
LOG_BASE: Final = (
    f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL "
    f"WHEN {{0}} <= 0 OR {{0}} = 1 OR {{1}} < 0 THEN {NAN} "
    f"WHEN {{1}} = 0 THEN {MINUS_INFINITY} ELSE ln({{1}}) / ln({{0}}) END"
)

ROUNDING: Final = (
    scalar(
        "ABS",
        FAMILY,
        "The absolute value.",
        *numbers("N value -> N", "abs({0})", python=by_types(python.absolute)),
    ),
    scalar(
        "CEIL",
        FAMILY,
        "The smallest integer that is not less than the value, in the value's type.",
        *numbers("N value -> N", _to_whole("ceil"), python=by_types(python.rounded_up)),
    ),
    scalar(
        "FLOOR",
        FAMILY,
        "The largest integer that is not greater than the value, in the value's type.",
        *numbers("N value -> N", _to_whole("floor"), python=by_types(python.rounded_down)),
    ),
    scalar(
        "ROUND",
        FAMILY,
        "Rounds to `scale` digits after the point (default: 0; before the point if negative), and "
        "half up. A DOUBLE without scale becomes a BIGINT.",
        signature("INTEGER value -> INTEGER", "{0}", python=int),
        signature("BIGINT value -> BIGINT", "{0}", python=int),
        signature(
            "DECIMAL value -> DECIMAL",
            "CAST(floor({0} + 0.5BD) AS {type})",
            returns=_whole,
            python=by_types(python.round_to),
        ),
        signature(
            "DOUBLE value -> BIGINT", "CAST(floor({0} + 0.5D) AS bigint)", python=python.nearest
        ),
        signature(
            "DECIMAL value, INTEGER scale -> DECIMAL", _round, python=by_types(python.round_to)
        ),
        signature(
            "DOUBLE value, INTEGER scale -> DOUBLE", _round, python=by_types(python.round_to)
        ),
    ),
    scalar(
        "TRUNC",
        FAMILY,
        "Truncates towards zero to `scale` digits after the point (default: 0; before the point if "
        "negative). A DOUBLE without scale becomes a BIGINT.",
        signature("INTEGER value -> INTEGER", "{0}", python=int),
        signature("BIGINT value -> BIGINT", "{0}", python=int),
        signature(
            "DECIMAL value -> DECIMAL",
            "CAST(IF({0} < 0, ceil({0}), floor({0})) AS {type})",
            returns=_whole,
            python=by_types(python.cut_to),
        ),
        signature("DOUBLE value -> BIGINT", "CAST({0} AS bigint)", python=python.cut_off),
        signature(
            "DECIMAL value, INTEGER scale -> DECIMAL", _truncate, python=by_types(python.cut_to)
        ),
        signature(
            "DOUBLE value, INTEGER scale -> DOUBLE", _truncate, python=by_types(python.cut_to)
        ),
    ),
    scalar(
        "SIGN",
        FAMILY,
        "The sign of a number: -1, 0 or 1.",
        *numbers("N value -> INTEGER", "CAST(sign({0}) AS int)", python=python.sign),
    ),
)

POWERS: Final = (
    _of_double("CBRT", "cbrt({0})", "The cube root.", math.cbrt),
    _of_double("EXP", "exp({0})", "e raised to the value.", math.exp),
    _of_double(
        "LN", LN, "The natural logarithm: NaN below zero, -Infinity at zero.", python.logarithm
    ),
    scalar(
        "LOG",
        FAMILY,
        "The logarithm of a value to a base, or the natural one: NaN if it is undefined, "
        "-Infinity for zero.",
        signature("DOUBLE value -> DOUBLE", LN, python=python.logarithm),
        signature("DOUBLE base, DOUBLE value -> DOUBLE", LOG_BASE, python=python.logarithm_to),
    ),
    scalar(
        "POWER",
        FAMILY,
        "The base raised to the exponent; Infinity if that is too large for a DOUBLE.",
        signature("DOUBLE base, DOUBLE exponent -> DOUBLE", "pow({0}, {1})", python=python.power),
    ),
    _of_double("SQRT", "sqrt({0})", "The square root: NaN below zero.", math.sqrt),
)

ANGLES: Final = (
    _of_double(
        "ACOS", "acos({0})", "The arc cosine, in radians: NaN outside of -1 to 1.", math.acos
    ),
    _of_double("ASIN", "asin({0})", "The arc sine, in radians: NaN outside of -1 to 1.", math.asin),
    _of_double("ATAN", "atan({0})", "The arc tangent, in radians.", math.atan),
    scalar(
        "ATAN2",
        FAMILY,
        "The angle of the point (x, y), in radians.",
        signature("DOUBLE y, DOUBLE x -> DOUBLE", "atan2({0}, {1})", python=math.atan2),
    ),
    _of_double("COS", "cos({0})", "The cosine of an angle in radians.", math.cos),
    _of_double("COSH", "cosh({0})", "The hyperbolic cosine.", math.cosh),
    _of_double(
        "COT",
        "cot({0})",
        "The cotangent of an angle in radians: Infinity at zero.",
        python.cotangent,
    ),
    _of_double("DEGREES", "degrees({0})", "An angle in degrees, given in radians.", python.degrees),
    _of_double("RADIANS", "radians({0})", "An angle in radians, given in degrees.", python.radians),
    _of_double("SIN", "sin({0})", "The sine of an angle in radians.", math.sin),
    _of_double("SINH", "sinh({0})", "The hyperbolic sine.", python.sinh),
    _of_double("TAN", "tan({0})", "The tangent of an angle in radians.", math.tan),
    _of_double("TANH", "tanh({0})", "The hyperbolic tangent.", math.tanh),
    scalar("PI", FAMILY, "The number pi.", signature("-> DOUBLE", "pi()", python=python.pi)),
)

OTHERS: Final = (
    scalar(
        "GEO_DISTANCE",
        FAMILY,
        "The great-circle distance of two points on earth, given in degrees: in kilometers (`KM`) "
        "or in miles (`MI`, `MILES`).",
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2 -> DOUBLE",
            _distance(KILOMETRES),
            python=python.distance,
        ),
        signature(
            "DOUBLE lat1, DOUBLE lon1, DOUBLE lat2, DOUBLE lon2, STRING units -> DOUBLE",
            _distance(f"({GEO_UNIT})"),
            python=with_nulls(python.distance),
        ),
    ),
    scalar(
        "GREATEST",
        FAMILY,
        "The largest of the arguments that are not NULL.",
        signature("T value -> T", "{0}", python=python.greatest),
        signature(
            "T first, T... others -> T", "greatest({all})", python=with_nulls(python.greatest)
        ),
    ),
    scalar(
        "LEAST",
        FAMILY,
        "The smallest of the arguments that are not NULL.",
        signature("T value -> T", "{0}", python=python.least),
        signature("T first, T... others -> T", "least({all})", python=with_nulls(python.least)),
    ),
    scalar(
        "RANDOM",
        FAMILY,
        "A random number from 0 (inclusive) to 1 (exclusive).",
        signature("-> DOUBLE", "rand()", python=python.random_number),
    ),
)

NUMERIC: Final = (*ROUNDING, *POWERS, *ANGLES, *OTHERS)
