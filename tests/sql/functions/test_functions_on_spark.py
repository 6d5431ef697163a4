"""Several hundred expressions, computed by Spark in a few selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sql_cases import COLUMNS, GROUPS, ON_SPARK, SCOPE, TABLE_FUNCTIONS, TYPES, same

from ottla.rows.types import spark_name
from ottla.sql.expressions import resolve, translate
from ottla.sql.run.session import prepare_session
from ottla.sql.syntax import parse_expression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    session = spark.newSession()
    prepare_session(session)
    schema = ", ".join(f"{spark_name(name)} {type_.spark}" for name, type_ in TYPES.items())
    return session.createDataFrame([tuple(value for _, value in COLUMNS.values())], schema)


@pytest.mark.parametrize("group", GROUPS)
def test_spark_gives_ksqldbs_results(rows: DataFrame, group: str) -> None:
    cases = GROUPS[group]
    values = [translate(parse_expression(text), SCOPE) for text, _ in cases]
    frame = rows.selectExpr(
        *(f"{value.text.spark} AS `{place}`" for place, value in enumerate(values))
    )
    wrong = [
        f"{text} is {field.dataType.simpleString()} in Spark and should be {value.type}"
        for (text, _), value, field in zip(cases, values, frame.schema, strict=True)
        if value.type is not None
        and field.dataType.simpleString() != value.type.spark.replace("`", "")
    ]
    computed = [plain(value) for value in frame.collect()[0]]
    wrong += [
        f"{text} gave {found!r}, not {expected!r}"
        for (text, expected), found in zip(cases, computed, strict=True)
        if not same(found, ON_SPARK.get(text, expected))
    ]

    assert not wrong, "\n".join(wrong)


def test_table_functions_make_arrays_of_rows(rows: DataFrame) -> None:
    calls = [parse_expression(text) for text in TABLE_FUNCTIONS]
    texts = [resolve(call, SCOPE, translate).spark for call in calls]

    (row,) = rows.selectExpr(*texts).collect()

    assert list(row) == list(TABLE_FUNCTIONS.values())


def plain(value: Any) -> Any:
    """A value of a row without Spark's own classes."""
    if hasattr(value, "asDict"):
        return {name: plain(field) for name, field in value.asDict().items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return bytes(value) if isinstance(value, bytearray) else value
