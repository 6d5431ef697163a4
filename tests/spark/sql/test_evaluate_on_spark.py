"""What Python works out for a pull query is what Spark works out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from pull_rows import COLUMNS, ROWS

from ottla.spark.formats.arrow import arrow_array, python_values
from ottla.spark.sql.evaluate import evaluator
from ottla.spark.sql.expressions import Scope, translate
from ottla.spark.sql.syntax import parse
from ottla.spark.sql.syntax.statements import Select
from ottla.spark.sql.types import SqlType, spark_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    both_nan = isinstance(one, float) and isinstance(two, float) and math.isnan(one)
    return (both_nan and math.isnan(two)) or one == two


def test_python_and_spark_say_the_same(spark: SparkSession) -> None:
    import pyarrow as pa

    from ottla.spark.sql.functions import register_udfs

    register_udfs(spark)
    types: dict[str, SqlType] = {each.name: each.type for each in COLUMNS}
    arrays = [arrow_array([row[name] for row in ROWS], each) for name, each in types.items()]
    arrays.append(pa.array([row["ROWTIME"] for row in ROWS], pa.int64()))
    table = pa.Table.from_arrays(arrays, names=[*types, "ROWTIME"])
    columns = {("T", name): (each, spark_name(name)) for name, each in types.items()}
    columns["T", "ROWTIME"] = (SqlType.from_json({"type": "BIGINT"}), "`ROWTIME`")
    scope = Scope(columns)
    nodes = [expression_of(text) for text in EXPRESSIONS]
    translated = [translate(node, scope) for node in nodes]
    frame = spark.createDataFrame(table).selectExpr(
        *(f"{each.text} AS c{number}" for number, each in enumerate(translated))
    )
    found = frame.toArrow()
    wrong = []
    for number, (text, node) in enumerate(zip(EXPRESSIONS, nodes, strict=True)):
        compute = evaluator(node, scope)
        type_ = translated[number].type
        assert type_ is not None
        theirs = python_values(found.column(number), type_)
        ours = [compute(row) for row in ROWS]
        wrong += [
            f"{text} of {row['ID']}: {mine!r}, Spark {other!r}"
            for row, mine, other in zip(ROWS, ours, theirs, strict=True)
            if not same(mine, other)
        ]
    assert wrong == []
