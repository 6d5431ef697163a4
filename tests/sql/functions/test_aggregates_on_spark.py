"""Spark's aggregates in a streaming query give what the Python ones give, batch after batch."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.rows.types import spark_name
from ottla.sql.expressions import Scope, aggregate_calls, resolve_call, to_spark
from ottla.sql.functions import BUILTIN, FunctionKind
from ottla.sql.run.registered_functions import register_udfs
from ottla.sql.syntax import parse_expression, parse_type
from ottla.sql.text import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TYPES = {
    name: parse_type(text)
    for name, text in {
        "K": "STRING",
        "I": "INTEGER",
        "L": "BIGINT",
        "D": "DOUBLE",
        "DEC": "DECIMAL(6, 2)",
        "S": "STRING",
        "TS": "TIMESTAMP",
        "A": "ARRAY<INTEGER>",
        "M": "MAP<STRING, INTEGER>",
        "ST": "STRUCT<X INTEGER, Y STRING>",
        "ROWTIME": "BIGINT",
        "ROWPARTITION": "INTEGER",
        "ROWOFFSET": "BIGINT",
    }.items()
}
SCOPE = Scope({("", name): (each, column(name)) for name, each in TYPES.items()}, aggregates=True)
EXPRESSIONS = [
    "COUNT(*)",
    "COUNT(I)",
    "COUNT_DISTINCT(S)",
    "SUM(I)",
    "SUM(L)",
    "SUM(D)",
    "SUM(DEC)",
    "SUM_LIST(A)",
    "AVG(I)",
    "AVG(DEC)",
    "MIN(D)",
    "MAX(S)",
    "MIN(TS)",
    "MAX(DEC)",
    "COLLECT_LIST(I)",
    "COLLECT_LIST(M)",
    "COLLECT_SET(S)",
    "COLLECT_SET(M)",
    "EARLIEST_BY_OFFSET(I)",
    "EARLIEST_BY_OFFSET(I, false)",
    "EARLIEST_BY_OFFSET(I, 3)",
    "EARLIEST_BY_OFFSET(S, 3, false)",
    "LATEST_BY_OFFSET(M)",
    "LATEST_BY_OFFSET(I, false)",
    "LATEST_BY_OFFSET(I, 3)",
    "LATEST_BY_OFFSET(ST, 3, false)",
    "TOPK(D, 3)",
    "TOPK(L, S, I, 3)",
    "TOPK(I, L, S, 5)",
    "TOPKDISTINCT(I, 3)",
    "HISTOGRAM(S)",
    "STDDEV_SAMP(D)",
    "STDDEV_SAMPLE(I)",
    "CORRELATION(I, D)",
    "ATTR(S)",
    "ATTR(M)",
]
IN_ANY_ORDER = ("COLLECT_SET(S)", "COLLECT_SET(M)")


def test_all_aggregates_are_tried() -> None:
    names = {each.name for each in BUILTIN if each.kind is FunctionKind.AGGREGATE}

    assert names == {each.partition("(")[0] for each in EXPRESSIONS}


def test_streaming_aggregates_give_what_the_python_ones_give(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    register_udfs(session)
    batches = [rows_of(seed) for seed in range(3)]
    offset = 0
    schema = ", ".join(f"{spark_name(name)} {each.spark}" for name, each in TYPES.items())
    for number, batch in enumerate(batches):
        for row in batch:
            row["ROWOFFSET"] = offset = offset + 1
        frame = session.createDataFrame(
            [tuple(each[name] for name in TYPES) for each in batch], schema
        )
        frame.coalesce(1).write.parquet(str(tmp_path / "rows" / str(number)))
    texts = [to_spark(parse_expression(each), SCOPE) for each in EXPRESSIONS]
    found: list[dict[str, list[Any]]] = []

    def keep(frame: DataFrame, _: int) -> None:
        found.append({row[0]: [plain(each) for each in row[1:]] for row in frame.collect()})

    query = (
        session.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "rows" / "*"))
        .groupBy("K")
        .agg(*(as_column(text, place) for place, text in enumerate(texts)))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "state"))
        .foreachBatch(keep)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    expected = python_results(batches)
    assert len(found) == len(batches)
    for number, (spark_says, python_says) in enumerate(zip(found, expected, strict=True)):
        wrong = [
            f"batch {number}, {key}: {text} is {one!r} in Spark and {two!r} in Python"
            for key, values in spark_says.items()
            for text, one, two in zip(EXPRESSIONS, values, python_says[key], strict=True)
            if not same(one, two, in_any_order=text in IN_ANY_ORDER)
        ]
        assert not wrong, "\n".join(wrong)


def rows_of(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return [
        {
            "K": chance.choice("abc"),
            "I": maybe(chance.randint(-5, 5)),
            "L": maybe(chance.randint(0, 2**40)),
            "D": maybe(round(chance.uniform(-10, 10), 3)),
            "DEC": maybe(Decimal(chance.randint(-999, 999)).scaleb(-2)),
            "S": maybe(chance.choice(["x", "y", "z"])) if seed else "x",
            "TS": maybe(datetime.fromtimestamp(chance.randint(0, 10**9), UTC)),
            "A": maybe([maybe(1), maybe(2)]),
            "M": {"k": 1} if chance.random() < 0.7 or not seed else {"k": 2, "l": None},
            "ST": maybe({"X": chance.randint(1, 9), "Y": "y"}),
            "ROWTIME": chance.randint(0, 1000),
            "ROWPARTITION": 0,
        }
        for _ in range(40)
    ]


def python_results(batches: list[list[dict[str, Any]]]) -> list[dict[str, list[Any]]]:
    """What each group is after each batch."""
    states: dict[str, list[Any]] = {}
    calls = []
    for text in EXPRESSIONS:
        (node,) = aggregate_calls(parse_expression(text))
        calls.append(resolve_call(node, SCOPE))
    forms = [each.aggregation for each in calls]
    results = []
    for batch in batches:
        for row in batch:
            old = states.get(row["K"]) or [each.initial() for each in forms]
            states[row["K"]] = [
                form.add(state, *(row[each.name] for each in called.columns))
                for form, state, called in zip(forms, old, calls, strict=True)
            ]
        results.append(
            {
                key: [form.result(state) for form, state in zip(forms, each, strict=True)]
                for key, each in states.items()
            }
        )
    return results


def as_column(text: str, place: int) -> Any:
    from pyspark.sql.functions import expr

    return expr(text).alias(str(place))


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    return value


def same(one: Any, two: Any, *, in_any_order: bool) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        both_nan = math.isnan(one) and math.isnan(two)
        return both_nan or math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    if in_any_order:
        return sorted(one, key=repr) == sorted(two, key=repr)
    return bool(one == two)
