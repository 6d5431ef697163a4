"""Expressions over one row and ksqlDB's results, for Spark and for Python."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import sql_cases_basic
import sql_cases_more

from ottla.sql.expressions import Scope
from ottla.sql.syntax import parse_type
from ottla.sql.text import column

COLUMNS: dict[str, tuple[str, Any]] = {
    "I": ("INTEGER", 7),
    "L": ("BIGINT", 5000000000),
    "D": ("DOUBLE", 2.5),
    "S": ("STRING", "Hello"),
    "B": ("BOOLEAN", True),
    "DEC": ("DECIMAL(5, 2)", Decimal("12.34")),
    "NI": ("INTEGER", None),
    "NS": ("STRING", None),
    "ND": ("DOUBLE", None),
    "NA": ("ARRAY<INTEGER>", None),
    "AI": ("ARRAY<INTEGER>", [3, 1, None, 2]),
    "AS1": ("ARRAY<STRING>", ["b", "a", None]),
    "M": ("MAP<STRING, INTEGER>", {"a": 1, "b": 2}),
    "NM": ("MAP<STRING, INTEGER>", None),
    "ST": ("STRUCT<NAME STRING, AGE INTEGER>", {"NAME": "x", "AGE": 3}),
    "NST": ("STRUCT<NAME STRING, AGE INTEGER>", None),
    "DAY": ("DATE", date(2021, 2, 3)),
    "CLOCK": ("TIME", time(10, 11, 12, 345000)),
    "TS": ("TIMESTAMP", datetime(2021, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)),
    "Y": ("BYTES", b"abc"),
    "ZERO": ("INTEGER", 0),
    "x": ("INTEGER", 1),
}
TYPES = {name: parse_type(text) for name, (text, _) in COLUMNS.items()}
SCOPE = Scope({("", name): (type_, column(name)) for name, type_ in TYPES.items()})
GROUPS = {
    "operators": [*sql_cases_basic.OPERATORS, *sql_cases_basic.CASTS],
    "numbers": sql_cases_basic.NUMERIC,
    "strings": [*sql_cases_basic.STRINGS, *sql_cases_basic.CAPTURES],
    "bytes and collections": [*sql_cases_more.BYTES, *sql_cases_more.COLLECTIONS],
    "times, URLs and JSON": [*sql_cases_more.TIMES, *sql_cases_more.URLS, *sql_cases_more.JSON],
}
ROW = {name: value for name, (_, value) in COLUMNS.items()}
ON_SPARK: dict[str, Any] = {
    # Spark's own function is ten times as quick as one in Python, and drops zeros of decimals.
    f"EXTRACTJSONFIELD('{sql_cases_more.LOG}', '$.list[0]')": "1.2345",
    # StrictMath.log, where ksqlDB has Math.log.
    "CAST(LN(3) AS STRING)": "1.0986122886681096",
}
"""Where Spark's value is another one, and why."""
TABLE_FUNCTIONS: dict[str, Any] = {
    "CUBE_EXPLODE(ARRAY[1, 2])": [[None, None], [None, 2], [1, None], [1, 2]],
    "CUBE_EXPLODE(ARRAY[1, NI])": [[None, None], [1, None]],
    "CUBE_EXPLODE(NA)": None,
    "EXPLODE(AI)": [3, 1, None, 2],
}


def same(found: Any, expected: Any) -> bool:
    if expected == sql_cases_basic.NAN:
        return isinstance(found, float) and math.isnan(found)
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or math.isclose(found, expected, rel_tol=1e-12)
    return type(found) is type(expected) and bool(found == expected)
