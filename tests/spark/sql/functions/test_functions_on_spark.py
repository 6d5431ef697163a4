"""Several hundred expressions, computed by Spark in a few selects."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sql_cases_basic
import sql_cases_more

from ottla.spark.sql.expressions import Scope, resolve_call, table_calls, translate
from ottla.spark.sql.functions import BUILTIN, FunctionKind, register_udfs
from ottla.spark.sql.syntax import parse_expression, parse_type
from ottla.spark.sql.types import spark_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

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
SCOPE = Scope({("", name): (each, spark_name(name)) for name, each in TYPES.items()})
GROUPS = {
    "operators": [*sql_cases_basic.OPERATORS, *sql_cases_basic.CASTS],
    "numbers": sql_cases_basic.NUMERIC,
    "strings": [*sql_cases_basic.STRINGS, *sql_cases_basic.CAPTURES],
    "bytes and collections": [*sql_cases_more.BYTES, *sql_cases_more.COLLECTIONS],
    "times, URLs and JSON": [*sql_cases_more.TIMES, *sql_cases_more.URLS, *sql_cases_more.JSON],
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    session = spark.newSession()
    register_udfs(session)
    schema = ", ".join(f"{spark_name(name)} {each.spark}" for name, each in TYPES.items())
    return session.createDataFrame([tuple(value for _, value in COLUMNS.values())], schema)


@pytest.mark.parametrize("group", GROUPS)
def test_spark_computes_what_ksqldb_says(rows: DataFrame, group: str) -> None:
    cases = GROUPS[group]
    values = [translate(parse_expression(text), SCOPE) for text, _ in cases]
    frame = rows.selectExpr(*(f"{each.text} AS `{place}`" for place, each in enumerate(values)))
    wrong = [
        f"{text} is {field.dataType.simpleString()} in Spark and should be {value.type}"
        for (text, _), value, field in zip(cases, values, frame.schema, strict=True)
        if value.type is not None
        and field.dataType.simpleString() != value.type.spark.replace("`", "")
    ]
    computed = [plain(each) for each in frame.collect()[0]]
    wrong += [
        f"{text} gave {found!r}, not {expected!r}"
        for (text, expected), found in zip(cases, computed, strict=True)
        if not same(found, expected)
    ]

    assert not wrong, "\n".join(wrong)


def test_table_functions_make_arrays_of_rows(rows: DataFrame) -> None:
    cubes = {
        "CUBE_EXPLODE(ARRAY[1, 2])": [[None, None], [None, 2], [1, None], [1, 2]],
        "CUBE_EXPLODE(ARRAY[1, NI])": [[None, None], [1, None]],
        "CUBE_EXPLODE(NA)": None,
        "EXPLODE(AI)": [3, 1, None, 2],
    }
    calls = [table_calls(parse_expression(text))[0] for text in cubes]
    texts = [resolve_call(each, SCOPE).spark for each in calls]

    (row,) = rows.selectExpr(*texts).collect()

    assert list(row) == list(cubes.values())


def test_each_function_is_tried() -> None:
    texts = " ".join(text for group in GROUPS.values() for text, _ in group)
    names = {each.name for each in BUILTIN if each.kind is FunctionKind.SCALAR}

    assert not [name for name in sorted(names) if f"{name}(" not in texts]


def plain(value: Any) -> Any:
    """A value of a row without Spark's own classes."""
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value


def same(found: Any, expected: Any) -> bool:
    if expected == sql_cases_basic.NAN:
        return isinstance(found, float) and math.isnan(found)
    if isinstance(found, float) and isinstance(expected, float):
        return found == expected or math.isclose(found, expected, rel_tol=1e-12)
    return type(found) is type(expected) and bool(found == expected)
