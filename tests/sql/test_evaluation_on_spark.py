"""The Python text of an expression gives the same values as its Spark text."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from any_expression import ANY, any_expression
from pull_rows import COLUMNS, ROWS

from ottla.rows.formats.arrow import arrow_array, python_values
from ottla.rows.types import BIGINT
from ottla.sql.evaluation import compiled
from ottla.sql.expressions import Scope, translate
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import Select
from ottla.sql.text import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NUMBERS = ("I", "L", "D", "2", "0", "-3", "2.5E0", "-0.5E0")
EXPRESSIONS = [
    *(f"{a} {op} {b}" for a in NUMBERS[:3] for b in NUMBERS for op in ("+", "-", "*", "/", "%")),
    *(f"{a} {op} {b}" for a in "ILDX" for b in "ILDX" for op in ("=", "<>", "<", ">=")),
    *(f"{a} IS DISTINCT FROM {b}" for a in "ID" for b in "LD"),
    "-I",
    "-L",
    "-D",
    "ABS(I)",
    "ABS(L)",
    "ABS(D)",
    "S + S",
    "UCASE(S)",
    "LCASE(S)",
    "LEN(S)",
    "ARRAY_LENGTH(A)",
    "COALESCE(I, 3)",
    "IFNULL(S, 'none')",
    "NULLIF(I, 5)",
    "A[1]",
    "A[-1]",
    "A[7]",
    "A[I]",
    "M['k']",
    "U->F",
    "B AND I > 0",
    "B OR I > 0",
    "NOT B",
    "I BETWEEN -7 AND 0",
    "D BETWEEN 0 AND 1",
    "S LIKE 'a_c%'",
    "S LIKE '%\\%'",
    "S LIKE '%c!%%' ESCAPE '!'",
    "I IN (5, 6)",
    "D IN (0.1, 2)",
    "S IN ('abc%d', 'x')",
    "X IN (1.5, 2.25)",
    "T > '2020-01-01'",
    "DAY <= '1969-12-31'",
    "ROWTIME > '2020-09-13T12:26:39'",
    "S IS NULL",
    "CAST(I AS STRING)",
    "CAST(L AS INTEGER)",
    "CAST(L AS DOUBLE)",
    "CAST(D AS INTEGER)",
    "CAST(D AS BIGINT)",
    "CAST(B AS STRING)",
    "CAST(S AS INTEGER)",
    "CAST('12' AS INTEGER)",
    "CAST('1e2' AS DOUBLE)",
    "CAST(' 7 ' AS BIGINT)",
    "CAST('99999999999' AS INTEGER)",
    "CAST(X AS DOUBLE)",
    "CASE WHEN I > 0 THEN 'p' WHEN B THEN 'q' END",
    "CASE I WHEN 5 THEN 1 ELSE 2 END",
    "CAST(NULL AS STRING)",
]


def expression_of(text: str) -> Any:
    (statement,) = parse(f"SELECT {text} FROM T;")
    assert isinstance(statement, Select)
    return statement.query.select[0].expression


def same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two)) or math.isclose(one, two)
    return type(one) is type(two) and bool(one == two)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    import pyarrow as pa

    from ottla.sql.run.session import prepare_session

    session = spark.newSession()
    prepare_session(session)
    arrays = [arrow_array([row[column.name] for row in ROWS], column.type) for column in COLUMNS]
    arrays.append(pa.array([row["ROWTIME"] for row in ROWS], pa.int64()))
    names = [*(column.name for column in COLUMNS), "ROWTIME"]
    return session.createDataFrame(pa.Table.from_arrays(arrays, names=names))


def differences(frame: DataFrame, texts: list[str]) -> list[str]:
    """The rows where Python's value differs from Spark's."""
    columns = {("T", given.name): (given.type, column(given.name)) for given in COLUMNS}
    columns["T", "ROWTIME"] = (BIGINT, column("ROWTIME"))
    scope = Scope(columns)
    translated = [translate(expression_of(text), scope) for text in texts]
    sparks = [f"{value.text.spark} AS c{place}" for place, value in enumerate(translated)]
    found = frame.selectExpr(*sparks).toArrow()
    compute = compiled([value.text.python for value in translated])
    ours = list(zip(*(compute(row) for row in ROWS), strict=True))
    wrong = []
    for place, (text, value) in enumerate(zip(texts, translated, strict=True)):
        assert value.type is not None
        theirs = python_values(found.column(place), value.type)
        wrong += [
            f"{text} of {row['ID']}: {mine!r}, Spark {other!r}"
            for row, mine, other in zip(ROWS, ours[place], theirs, strict=True)
            if not same(mine, other)
        ]
    return wrong


def test_python_and_spark_agree(frame: DataFrame) -> None:
    wrong = differences(frame, EXPRESSIONS)

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(1))
def test_python_and_spark_agree_on_any_expression(frame: DataFrame, seed: int) -> None:
    random = Random(seed)
    texts = [any_expression(random, kind, 3) for kind in ANY for _ in range(12)]

    wrong = differences(frame, texts)

    assert not wrong, "\n".join(wrong)
