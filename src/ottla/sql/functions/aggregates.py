"""The aggregates: as Spark computes them in a streaming query, and in Python.

All of Spark's texts work in update mode and need no order of rows: where order matters (LATEST,
COLLECT_LIST), rows are compared by `call.order`. A session window that grows keeps that order, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.rows.types import Field, Kind, SqlType, array
from ottla.sql.functions import accumulators as python
from ottla.sql.functions.declare import numbers
from ottla.sql.functions.sketches import CountDistinct
from ottla.sql.functions.table import (
    Call,
    Function,
    FunctionKind,
    MakeAggregation,
    Signature,
    signature,
)

FAMILY: Final = "Aggregates"
LIST_LIMIT: Final = "ksql.functions.collect_list.limit"
SET_LIMIT: Final = "ksql.functions.collect_set.limit"
ORDERED: Final = ("BOOLEAN", "INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "BYTES", "DATE",
                  "TIME", "TIMESTAMP")  # fmt: skip


def _aggregate(
    name: str,
    description: str,
    signatures: Sequence[Signature],
    *,
    on_tables: bool = False,
    constants: tuple[int, ...] = (),
) -> Function:
    return Function(
        name,
        FunctionKind.AGGREGATE,
        FAMILY,
        description,
        tuple(signatures),
        on_tables=on_tables,
        constants=constants,
    )


def _of_numbers(text: str, spark: str, make: MakeAggregation) -> list[Signature]:
    return [
        Signature(each.parameters, each.result, spark, each.variadic, each.returns, make)
        for each in numbers(text, spark)
    ]


def _of_ordered(spark: str, make: MakeAggregation) -> list[Signature]:
    return [
        signature(f"{kind} value -> {kind}", spark, aggregation=make)
        for kind in ORDERED
        if kind != "BOOLEAN"
    ]


def _zero(call: Call) -> Any:
    if call.returns.kind is Kind.DECIMAL:
        return Decimal(0).scaleb(-call.returns.scale)
    return 0.0 if call.returns.kind is Kind.DOUBLE else 0


def _limit(call: Call, name: str) -> int | None:
    text = call.settings.get(name, "")
    return int(text) if text else None


def _limited(text: str, limit: int | None) -> str:
    return f"slice({text}, 1, {limit})" if limit is not None else text


def _collect_list(call: Call) -> str:
    """Spark leaves NULLs out and promises no order: so each goes in with its place."""
    places = f"collect_list(struct({call.order} AS o, {call.texts[0]} AS v))"
    by_place = "(a, b) -> CASE WHEN a.o < b.o THEN -1 WHEN a.o > b.o THEN 1 ELSE 0 END"
    values = f"transform(array_sort({places}, {by_place}), e -> e.v)"
    return _limited(values, _limit(call, LIST_LIMIT))


def _collect_set(call: Call) -> str:
    """In the order of the values: which came first, a set does not know. Values with maps in them,
    which Spark does not compare, are compared as JSON."""
    value = f"struct({call.texts[0]} AS v)"
    taken = "e.v"
    if not _orderable(call.returns):
        assert call.returns.element is not None
        taken = f"from_json(e, 'v {call.returns.element.spark}').v"
        value = f"to_json({value}, map('ignoreNullFields', 'false'))"
    values = f"transform(array_sort(collect_set({value})), e -> {taken})"
    return _limited(values, _limit(call, SET_LIMIT))


def _correlation(call: Call) -> str:
    """By ksqlDB's own formula, whose last digits are others than those of Spark's corr."""
    one, two = call.texts
    x, y = f"IF({two} IS NULL, NULL, {one})", f"IF({one} IS NULL, NULL, {two})"
    count = f"count({x})"
    of_x = f"({count} * sum({x} * {x}) - sum({x}) * sum({x}))"
    of_y = f"({count} * sum({y} * {y}) - sum({y}) * sum({y}))"
    both = f"({count} * sum({x} * {y}) - sum({x}) * sum({y}))"
    found = f"IF({of_x} > 0 AND {of_y} > 0, {both} / sqrt({of_x} * {of_y}), NULL)"
    return f"coalesce({found}, CAST('NaN' AS double))"


def _ignores_nulls(call: Call) -> bool:
    """The last argument, where it is a BOOLEAN; without one they are ignored."""
    last = call.constants[-1]
    return last if isinstance(last, bool) else True


def _wanted(call: Call) -> int | None:
    """How many: the second argument, where it is a number."""
    if len(call.constants) < 2 or isinstance(call.constants[1], bool):
        return None
    return _positive(call.constants[1])


def _positive(count: Any) -> int:
    if not isinstance(count, int) or count < 1:
        raise SqlError("How many values are wanted must be at least 1.")
    return count


def _by_offset(call: Call, *, latest: bool) -> str:
    value = call.texts[0]
    order = f"IF({value} IS NULL, NULL, {call.order})" if _ignores_nulls(call) else call.order
    chosen = "max_by" if latest else "min_by"
    count = _wanted(call)
    if count is None:
        return f"{chosen}({value}, {order})"
    # In a struct, for a bare NULL would not be taken up into the array.
    found = f"{chosen}(struct({value} AS v), {order}, {count})"
    in_order = f"reverse({found})" if latest else found
    return f"coalesce(transform({in_order}, e -> e.v), array())"


def _python_by_offset(call: Call, *, latest: bool) -> python.ByOffset:
    count = _wanted(call)
    return python.ByOffset(latest, count or 1, count is None, _ignores_nulls(call))


def _by_offset_signatures(*, latest: bool) -> list[Signature]:
    texts = (
        "T value -> T",
        "T value, BOOLEAN ignoreNulls -> T",
        "T value, INTEGER count -> ARRAY<T>",
        "T value, INTEGER count, BOOLEAN ignoreNulls -> ARRAY<T>",
    )
    return [
        signature(
            text,
            lambda call: _by_offset(call, latest=latest),
            aggregation=lambda call: _python_by_offset(call, latest=latest),
        )
        for text in texts
    ]


def _top(call: Call) -> str:
    value, *others = call.texts[:-1]
    count = _positive(call.constants[-1])
    fields = [f"'sort_col', {value}"]
    fields += [f"'col{place}', {text}" for place, text in enumerate(others)]
    if not others:
        return f"coalesce(max_by({value}, {value}, {count}), array())"
    # Of two that are as large the earlier one comes first: its place is the larger below zero.
    place = call.order.replace("`R", "-`R")
    order = f"IF({value} IS NULL, NULL, struct({value}, {place}))"
    taken = f"named_struct({', '.join(fields)})"
    return f"coalesce(max_by({taken}, {order}, {count}), array())"


def _top_type(types: Sequence[SqlType | None]) -> SqlType:
    fields = ["sort_col", *(f"col{place}" for place in range(len(types) - 2))]
    known = [each for each in types[:-1] if each is not None]
    if len(known) < len(types) - 1:
        raise SqlError("TOPK can't take a bare NULL.", remedy="CAST it to the type that is meant.")
    pairs = zip(fields, known, strict=True)
    return array(SqlType(Kind.STRUCT, fields=tuple(Field(name, each) for name, each in pairs)))


def _top_distinct(call: Call) -> str:
    count = _positive(call.constants[1])
    return f"slice(sort_array(collect_set({call.texts[0]}), false), 1, {count})"


def _attr(call: Call) -> str:
    """Smallest and largest are the same; a NULL is a value like others here."""
    value = f"struct({call.texts[0]} AS v)"
    if _orderable(call.returns):
        return f"IF(min({value}) <=> max({value}), min({value}).v, NULL)"
    text = f"struct(to_json({value}) AS v)"
    return f"IF(min({text}) <=> max({text}), first({value}).v, NULL)"


def _orderable(type_: SqlType) -> bool:
    inner = [type_.element] if type_.element else [each.type for each in type_.fields]
    return type_.kind is not Kind.MAP and all(_orderable(each) for each in inner)


HISTOGRAM_TEXT: Final = (
    "aggregate(collect_list({0}), CAST(map() AS map<string,bigint>), (m, v) -> "
    "IF(m[v] IS NULL AND size(m) >= 1000, m, "
    "map_concat(m, map(v, coalesce(m[v], 0L) + 1L))))"
)

COUNTING: Final = (
    _aggregate(
        "COUNT",
        "How many rows there are, or how many of them have a value that is not NULL.",
        [
            signature("-> BIGINT", "count(*)", aggregation=lambda _: python.Count()),
            signature("T value -> BIGINT", "count({0})", aggregation=lambda _: python.Count()),
        ],
        on_tables=True,
    ),
    _aggregate(
        "COUNT_DISTINCT",
        "How many different values there are, about: it may be off by a few in a hundred.",
        [
            signature(
                "T value -> BIGINT",
                "approx_count_distinct({0})",
                aggregation=lambda _: CountDistinct(),
            )
        ],
    ),
    _aggregate(
        "HISTOGRAM",
        "How often each text comes, as a map; of more than 1000 texts only the first count.",
        [
            signature(
                "STRING value -> MAP<STRING, BIGINT>",
                HISTOGRAM_TEXT,
                aggregation=lambda _: python.Histogram(),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "ATTR",
        "The value, if all rows have the same; else NULL.",
        [signature("T value -> T", _attr, aggregation=lambda _: python.Attr())],
        on_tables=True,
    ),
)

STATISTICS: Final = (
    _aggregate(
        "AVG",
        "The mean of the values that are not NULL.",
        [signature("DOUBLE value -> DOUBLE", "avg({0})", aggregation=lambda _: python.Average())],
        on_tables=True,
    ),
    _aggregate(
        "CORRELATION",
        "Pearson's correlation of two columns; NaN where there is none. Rows with a NULL in one "
        "of them do not count.",
        [
            signature(
                "DOUBLE x, DOUBLE y -> DOUBLE",
                _correlation,
                aggregation=lambda _: python.Correlation(),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "STDDEV_SAMP",
        "The square of the sample standard deviation: ksqlDB's has been that since it was made. "
        "STDDEV_SAMPLE is the deviation itself.",
        [
            signature(
                "DOUBLE value -> DOUBLE",
                "coalesce(var_samp({0}), 0.0D)",
                aggregation=lambda _: python.Spread(root=False),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "STDDEV_SAMPLE",
        "The sample standard deviation; 0 for one value.",
        [
            signature(
                "DOUBLE value -> DOUBLE",
                "coalesce(stddev_samp({0}), 0.0D)",
                aggregation=lambda _: python.Spread(root=True),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "SUM",
        "The sum of the values that are not NULL, in their type.",
        _of_numbers(
            "N value -> N",
            "coalesce(CAST(sum({0}) AS {type}), CAST(0 AS {type}))",
            lambda call: python.Sum(_zero(call)),
        ),
        on_tables=True,
    ),
    _aggregate(
        "SUM_LIST",
        "The sum of all numbers in arrays.",
        [
            signature(
                f"ARRAY<{kind}> values -> {kind}",
                "coalesce(CAST(sum(aggregate(filter({0}, x -> x IS NOT NULL), "
                "CAST(0 AS {type}), (s, x) -> s + x)) AS {type}), CAST(0 AS {type}))",
                aggregation=lambda call: python.Sum(_zero(call), of_lists=True),
            )
            for kind in ("INTEGER", "BIGINT", "DOUBLE")
        ],
        on_tables=True,
    ),
)

CHOOSING: Final = (
    _aggregate(
        "COLLECT_LIST",
        "All values as an array, NULLs too.",
        [
            signature(
                "T value -> ARRAY<T>",
                _collect_list,
                aggregation=lambda call: python.CollectList(_limit(call, LIST_LIMIT)),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "COLLECT_SET",
        "All different values as an array, in the order of the values on Spark, else as they came.",
        [
            signature(
                "T value -> ARRAY<T>",
                _collect_set,
                aggregation=lambda call: python.CollectSet(_limit(call, SET_LIMIT)),
            )
        ],
    ),
    _aggregate(
        "EARLIEST_BY_OFFSET",
        "The value of the first row, or of the first `count` rows. NULLs do not count, unless "
        "`ignoreNulls` is false.",
        _by_offset_signatures(latest=False),
        constants=(1, 2),
    ),
    _aggregate(
        "LATEST_BY_OFFSET",
        "The value of the last row, or of the last `count` rows. NULLs do not count, unless "
        "`ignoreNulls` is false.",
        _by_offset_signatures(latest=True),
        constants=(1, 2),
    ),
    _aggregate(
        "MAX", "The largest value.", _of_ordered("max({0})", lambda _: python.Extreme(max, "MAX"))
    ),
    _aggregate(
        "MIN", "The smallest value.", _of_ordered("min({0})", lambda _: python.Extreme(min, "MIN"))
    ),
    _aggregate(
        "TOPK",
        "The k largest values; with other columns, STRUCTs of `sort_col` and of `col0`, `col1` ...",
        [
            signature(
                "T value, INTEGER k -> ARRAY<T>",
                _top,
                aggregation=lambda call: python.TopK(call.constants[-1]),
            ),
            signature(
                "T value, ANY... others, INTEGER k -> ARRAY<T>",
                _top,
                returns=_top_type,
                aggregation=lambda call: python.TopK(
                    call.constants[-1], others=len(call.texts) - 2
                ),
            ),
        ],
        constants=(-1,),
    ),
    _aggregate(
        "TOPKDISTINCT",
        "The k largest different values.",
        [
            signature(
                "T value, INTEGER k -> ARRAY<T>",
                _top_distinct,
                aggregation=lambda call: python.TopK(call.constants[1], distinct=True),
            )
        ],
        constants=(1,),
    ),
)

AGGREGATES: Final = (*COUNTING, *STATISTICS, *CHOOSING)

GROWING: Final = frozenset({"COLLECT_LIST", "COLLECT_SET", "HISTOGRAM", "TOPKDISTINCT"})
"""Those whose state in Spark grows with the rows of a group, or with their different values."""
