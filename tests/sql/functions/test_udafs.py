"""Aggregates in Python: undo and merge."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.functions import BUILTIN, FunctionKind
from ottla.sql.functions.builtin_udafs import (
    AttrUdaf,
    AverageUdaf,
    ByOffsetUdaf,
    CollectListUdaf,
    CollectSetUdaf,
    CorrelationUdaf,
    CountUdaf,
    ExtremeUdaf,
    HistogramUdaf,
    SumUdaf,
    TopKUdaf,
    VarianceUdaf,
)
from ottla.sql.functions.count_distinct import CountDistinctUdaf

REVERSIBLE: list[Any] = [
    CountUdaf(),
    SumUdaf(0),
    AverageUdaf(),
    CollectListUdaf(),
    HistogramUdaf(),
    VarianceUdaf(root=True),
    VarianceUdaf(root=False),
    AttrUdaf(),
]
IRREVERSIBLE: list[Any] = [
    ExtremeUdaf(min, "MIN"),
    ExtremeUdaf(max, "MAX"),
    CollectSetUdaf(),
    CountDistinctUdaf(),
    ByOffsetUdaf(latest=True, count=1, single=True, ignore_nulls=True),
    ByOffsetUdaf(latest=False, count=3, single=False, ignore_nulls=False),
    TopKUdaf(3),
    TopKUdaf(3, distinct=True),
]


def name_of(form: Any) -> str:
    return type(form).__name__


def values_for(form: Any, seed: int) -> list[Any]:
    chance = random.Random(seed)
    numbers = [None if chance.random() < 0.2 else chance.randint(0, 9) for _ in range(30)]
    if isinstance(form, HistogramUdaf):
        return [None if number is None else f"v{number}" for number in numbers]
    return numbers


def result(form: Any, values: list[Any]) -> Any:
    state = form.initial()
    for value in values:
        state = form.add(state, value)
    return form.result(state)


def same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == two)


@pytest.mark.parametrize("form", REVERSIBLE, ids=name_of)
@pytest.mark.parametrize("seed", range(5))
def test_an_undone_row_leaves_no_trace(form: Any, seed: int) -> None:
    values = values_for(form, seed)
    state = form.initial()
    for value in values:
        state = form.add(state, value)
    for value in reversed(values[10:]):
        state = form.undo(state, value)

    assert same(form.result(state), result(form, values[:10]))


@pytest.mark.parametrize("form", [*REVERSIBLE, *IRREVERSIBLE], ids=name_of)
@pytest.mark.parametrize("seed", range(5))
def test_merged_parts_equal_the_whole(form: Any, seed: int) -> None:
    values = values_for(form, seed)
    states = []
    for part in (values[:12], values[12:]):
        state = form.initial()
        for row in part:
            state = form.add(state, row)
        states.append(json.loads(json.dumps(state)))

    assert same(form.result(form.merge(*states)), result(form, values))


@pytest.mark.parametrize("form", IRREVERSIBLE, ids=name_of)
def test_irreversible_aggregates_raise_in_undo(form: Any) -> None:
    with pytest.raises(SqlError, match="cannot be applied to a table source, only to a stream"):
        form.undo(form.add(form.initial(), 1), 1)


def test_table_aggregates_are_those_of_ksqldb() -> None:
    on_tables = {
        function.name
        for function in BUILTIN
        if function.kind is FunctionKind.AGGREGATE and function.on_tables
    }

    assert on_tables == {
        "ATTR", "AVG", "COLLECT_LIST", "CORRELATION", "COUNT", "HISTOGRAM", "STDDEV_SAMP",
        "STDDEV_SAMPLE", "SUM", "SUM_LIST",
    }  # fmt: skip


def test_correlation_takes_rows_back() -> None:
    form = CorrelationUdaf()
    points = [(1.5, 8.0), (-3.5, -2.0), (-1.0, -2.0), (-4.5, -1.0)]
    state = form.initial()
    for x, y in points:
        state = form.add(state, x, y)
    state = form.undo(form.undo(form.add(state, 9, 9), 9, 9), *points[1])
    again = form.initial()
    for x, y in (points[0], *points[2:]):
        again = form.add(again, x, y)

    assert math.isclose(form.result(state), form.result(again), rel_tol=1e-9)
    assert math.isnan(form.result(form.initial()))


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        (TopKUdaf(3), [0, 100, 99, 7, 100], [100, 100, 99]),
        (TopKUdaf(3, distinct=True), [0, 100, 99, 7, 100], [100, 99, 7]),
        (CollectListUdaf(), ["foo", None, "bar"], ["foo", None, "bar"]),
        (CollectListUdaf(1), [0, 100], [0]),
        (CollectSetUdaf(), [1, 2, 1, None, None], [1, 2, None]),
        (AttrUdaf(), ["1", "1"], "1"),
        (AttrUdaf(), ["1", None], None),
        (AttrUdaf(), [{"a": 1}, {"a": 1}], {"a": 1}),
        (SumUdaf(Decimal("0.0")), [Decimal("5.4"), None], Decimal("5.4")),
        (SumUdaf(0, of_lists=True), [[1, 1], [2, None], None], 4),
        (SumUdaf(0), [None], 0),
        (AverageUdaf(), [None], None),
        (VarianceUdaf(root=True), [0], 0.0),
        (VarianceUdaf(root=False), [0, 10], 50.0),
        (ByOffsetUdaf(latest=True, count=2, single=False, ignore_nulls=False), [1, None, 3], [None,
        3]), (ByOffsetUdaf(latest=True, count=2, single=False, ignore_nulls=True), [12, None, 13],
        [12, 13]), (ByOffsetUdaf(latest=False, count=1, single=True, ignore_nulls=False), [None, 1],
        None), (ByOffsetUdaf(latest=False, count=1, single=True, ignore_nulls=True), [None, 1], 1),
    ],
)  # fmt: skip
def test_an_aggregate_gives_what_ksqldb_gives(form: Any, values: list[Any], expected: Any) -> None:
    assert result(form, values) == expected


def test_topk_returns_other_columns() -> None:
    form = TopKUdaf(2, others=1)
    state = form.initial()
    for value, name in ((0, "zero"), (None, "none"), (100, "one"), (99, None)):
        state = form.add(state, value, name)

    assert form.result(state) == [
        {"sort_col": 100, "col0": "one"},
        {"sort_col": 99, "col0": None},
    ]


def test_count_distinct_is_approximate() -> None:
    form = CountDistinctUdaf()
    state = form.initial()
    for number in range(5000):
        state = form.add(state, number % 2500)

    assert abs(form.result(state) - 2500) < 125
    assert form.result(form.add(form.add([], "a"), "a")) == 1


def test_a_histogram_is_bounded() -> None:
    form = HistogramUdaf(limit=2)

    assert result(form, ["a", "b", "c", "a"]) == {"a": 2, "b": 1}
