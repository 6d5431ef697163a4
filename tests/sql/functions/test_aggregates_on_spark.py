"""Spark's aggregates in a streaming query equal the Python ones, batch after batch."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.rows.types import spark_name
from ottla.sql.expressions import Scope, resolve, to_spark, translate
from ottla.sql.functions import BUILTIN, FunctionKind
from ottla.sql.run.session import prepare_session
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
SCOPE = Scope({("", name): (type_, column(name)) for name, type_ in TYPES.items()}, aggregates=True)
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


def test_every_aggregate_is_tested() -> None:
    names = {function.name for function in BUILTIN if function.kind is FunctionKind.AGGREGATE}

    assert names == {text.partition("(")[0] for text in EXPRESSIONS}


def test_streaming_aggregates_agree_with_the_python_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    prepare_session(session)
    batches = [rows_of(seed) for seed in range(3)]
    offset = 0
    schema = ", ".join(f"{spark_name(name)} {type_.spark}" for name, type_ in TYPES.items())
    for number, batch in enumerate(batches):
        for row in batch:
            row["ROWOFFSET"] = offset = offset + 1
        frame = session.createDataFrame(
            [tuple(row[name] for name in TYPES) for row in batch], schema
        )
        frame.coalesce(1).write.parquet(str(tmp_path / "rows" / str(number)))
    texts = [to_spark(parse_expression(text), SCOPE) for text in EXPRESSIONS]
    found: list[dict[str, list[Any]]] = []

    def keep(frame: DataFrame, _: int) -> None:
        found.append({row[0]: [plain(value) for value in row[1:]] for row in frame.collect()})

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
            f"batch {number}, {key}: {text} is {on_spark!r} in Spark and {in_python!r} in Python"
            for key, values in spark_says.items()
            for text, on_spark, in_python in zip(EXPRESSIONS, values, python_says[key], strict=True)
            if not same(on_spark, in_python, in_any_order=text in IN_ANY_ORDER)
        ]
        assert not wrong, "\n".join(wrong)


NESTED = parse_type("STRUCT<M ARRAY<MAP<STRING, MAP<STRING, INTEGER>>>, X INTEGER>")


def test_equal_maps_count_once_whatever_the_order_of_their_entries(spark: SparkSession) -> None:
    session = spark.newSession()
    prepare_session(session)
    one = "map('a', map('x', 1, 'y', NULL), 'b', NULL)"
    same_one = "map('b', NULL, 'a', map('y', NULL, 'x', 1))"
    values = [f"named_struct('M', array({text}, NULL), 'X', 1)" for text in (one, same_one)]
    rows = ", ".join(f"(CAST({value} AS {NESTED.spark}))" for value in [*values, "NULL"])
    frame = session.sql(f"SELECT * FROM VALUES {rows} AS t(V)")
    scope = Scope({("", "V"): (NESTED, column("V"))}, aggregates=True)
    texts = [to_spark(parse_expression(text), scope) for text in ("COLLECT_SET(V)", "ATTR(V)")]
    (row,) = frame.agg(*(as_column(text, place) for place, text in enumerate(texts))).collect()
    wanted = {"M": [{"a": {"x": 1, "y": None}, "b": None}, None], "X": 1}
    assert [plain(value) for value in row] == [[None, wanted], None]
    (row,) = frame.where("V IS NOT NULL").agg(as_column(texts[1], 0)).collect()
    assert plain(row[0]) == wanted


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
    """The value of each group after each batch."""
    states: dict[str, list[Any]] = {}
    calls = []
    for text in EXPRESSIONS:
        node = parse_expression(text)
        calls.append(resolve(node, SCOPE, translate))
    forms = [call.aggregation for call in calls]
    results = []
    for batch in batches:
        for row in batch:
            old = states.get(row["K"]) or [form.initial() for form in forms]
            states[row["K"]] = [
                form.add(state, *(row[column.name] for column in called.columns))
                for form, state, called in zip(forms, old, calls, strict=True)
            ]
        results.append(
            {
                key: [form.result(state) for form, state in zip(forms, group, strict=True)]
                for key, group in states.items()
            }
        )
    return results


def as_column(text: str, place: int) -> Any:
    from pyspark.sql.functions import expr

    return expr(text).alias(str(place))


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain(field) for name, field in value.asDict().items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
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
