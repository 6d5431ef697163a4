"""Aggregates, for streaming queries of Spark and in Python.

The texts for Spark work in update mode, and don't depend on the order in which Spark processes
rows: if order matters (LATEST, COLLECT_LIST), rows are compared by `call.order`, which also works
for merged session windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.rows.types import SqlBaseType, SqlField, SqlType, array, spark_name
from ottla.sql.functions import builtin_udafs
from ottla.sql.functions.count_distinct import CountDistinctUdaf
from ottla.sql.functions.function_registry import (
    Call,
    Function,
    FunctionKind,
    MakeUdaf,
    Signature,
    signature,
)
from ottla.sql.functions.scalar import numbers

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
    keeps_order: bool = False,
) -> Function:
    return Function(
        name,
        FunctionKind.AGGREGATE,
        FAMILY,
        description,
        tuple(signatures),
        on_tables=on_tables,
        constants=constants,
        keeps_order=keeps_order,
    )


def _of_numbers(text: str, spark: str, make: MakeUdaf) -> list[Signature]:
    return [
        Signature(base.parameters, base.result, spark, base.variadic, base.returns, make)
        for base in numbers(text, spark)
    ]


def _of_ordered(spark: str, make: MakeUdaf) -> list[Signature]:
    return [
        signature(f"{kind} value -> {kind}", spark, aggregation=make)
        for kind in ORDERED
        if kind != "BOOLEAN"
    ]


def _zero(call: Call) -> Any:
    if call.returns.kind is SqlBaseType.DECIMAL:
        return Decimal(0).scaleb(-call.returns.scale)
    return 0.0 if call.returns.kind is SqlBaseType.DOUBLE else 0


def _limit(call: Call, name: str) -> int | None:
    text = call.settings.get(name, "")
    return int(text) if text else None


def _limited(text: str, limit: int | None) -> str:
    return f"slice({text}, 1, {limit})" if limit is not None else text


def _collect_list(call: Call) -> str:
    """COLLECT_LIST. Spark drops NULLs and guarantees no order, so values are in structs with their
    order."""
    places = f"collect_list(struct({call.order} AS o, {call.texts[0]} AS v))"
    by_place = "(a, b) -> CASE WHEN a.o < b.o THEN -1 WHEN a.o > b.o THEN 1 ELSE 0 END"
    values = f"transform(array_sort({places}, {by_place}), e -> e.v)"
    return _limited(values, _limit(call, LIST_LIMIT))


def _collect_set(call: Call) -> str:
    """COLLECT_SET of a pull query, sorted by value: Spark's sets forget in which order values came.
    Values with maps inside, which Spark can't compare, are compared as JSON."""
    element = call.returns.element
    assert element is not None
    value = f"struct({_with_sorted_maps(call.texts[0], element)} AS v)"
    taken = "e.v"
    if not _orderable(element):
        taken = f"from_json(e, 'v {element.spark}').v"
        value = f"to_json({value}, map('ignoreNullFields', 'false'))"
    values = f"transform(array_sort(collect_set({value})), e -> {taken})"
    return _limited(values, _limit(call, SET_LIMIT))


def _correlation(call: Call) -> str:
    """ksqlDB's formula, whose last digits differ from those of Spark's corr."""
    one, two = call.texts
    x, y = f"IF({two} IS NULL, NULL, {one})", f"IF({one} IS NULL, NULL, {two})"
    count = f"count({x})"
    of_x = f"({count} * sum({x} * {x}) - sum({x}) * sum({x}))"
    of_y = f"({count} * sum({y} * {y}) - sum({y}) * sum({y}))"
    both = f"({count} * sum({x} * {y}) - sum({x}) * sum({y}))"
    found = f"IF({of_x} > 0 AND {of_y} > 0, {both} / sqrt({of_x} * {of_y}), NULL)"
    return f"coalesce({found}, CAST('NaN' AS double))"


def _ignores_nulls(call: Call) -> bool:
    """The last argument, if it is a BOOLEAN; the default is true."""
    last = call.constants[-1]
    return last if isinstance(last, bool) else True


def _wanted(call: Call) -> int | None:
    """The number of values: the second argument, if it is a number."""
    if len(call.constants) < 2 or isinstance(call.constants[1], bool):
        return None
    return _positive(call.constants[1])


def _positive(count: Any) -> int:
    if not isinstance(count, int) or count < 1:
        raise SqlError("The number of values must be at least 1.")
    return count


def _by_offset(call: Call, *, latest: bool) -> str:
    value = call.texts[0]
    order = f"IF({value} IS NULL, NULL, {call.order})" if _ignores_nulls(call) else call.order
    chosen = "max_by" if latest else "min_by"
    count = _wanted(call)
    if count is None:
        return f"{chosen}({value}, {order})"
    # In a struct, because Spark drops NULLs from the array.
    found = f"{chosen}(struct({value} AS v), {order}, {count})"
    in_order = f"reverse({found})" if latest else found
    return f"coalesce(transform({in_order}, e -> e.v), array())"


def _python_by_offset(call: Call, *, latest: bool) -> builtin_udafs.ByOffsetUdaf:
    count = _wanted(call)
    return builtin_udafs.ByOffsetUdaf(latest, count or 1, count is None, _ignores_nulls(call))


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
    fields += [f"'col{index}', {text}" for index, text in enumerate(others)]
    if not others:
        return f"coalesce(max_by({value}, {value}, {count}), array())"
    # Of equal values the earlier one comes first, so its order is negated.
    place = call.order.replace("`R", "-`R")
    order = f"IF({value} IS NULL, NULL, struct({value}, {place}))"
    taken = f"named_struct({', '.join(fields)})"
    return f"coalesce(max_by({taken}, {order}, {count}), array())"


def _top_type(types: Sequence[SqlType | None]) -> SqlType:
    fields = ["sort_col", *(f"col{index}" for index in range(len(types) - 2))]
    known = [type_ for type_ in types[:-1] if type_ is not None]
    if len(known) < len(types) - 1:
        raise SqlError("TOPK does not accept an untyped NULL.", remedy="CAST it to a type.")
    pairs = zip(fields, known, strict=True)
    return array(
        SqlType(SqlBaseType.STRUCT, fields=tuple(SqlField(name, type_) for name, type_ in pairs))
    )


def _top_distinct(call: Call) -> str:
    count = _positive(call.constants[1])
    return f"slice(sort_array(collect_set({call.texts[0]}), false), 1, {count})"


def _attr(call: Call) -> str:
    """ATTR: the minimum equals the maximum; NULL counts as a value here."""
    value = f"struct({call.texts[0]} AS v)"
    if _orderable(call.returns):
        return f"IF(min({value}) <=> max({value}), min({value}).v, NULL)"
    text = f"to_json(struct({_with_sorted_maps(call.texts[0], call.returns)} AS v))"
    return f"IF(min({text}) <=> max({text}), first({value}).v, NULL)"


def _orderable(type_: SqlType) -> bool:
    inner = [type_.element] if type_.element else [field.type for field in type_.fields]
    return type_.kind is not SqlBaseType.MAP and all(_orderable(inner_type) for inner_type in inner)


def _with_sorted_maps(text: str, type_: SqlType, depth: int = 0) -> str:
    """The value with the entries of its maps in the order of their keys: equal maps may have come
    with their entries in different orders, which their JSON would show."""
    if _orderable(type_):
        return text
    name = f"e{depth}"
    if type_.kind is SqlBaseType.STRUCT:
        fields = (
            f"{_with_sorted_maps(f'({text}).{spark_name(field.name)}', field.type, depth)}"
            f" AS {spark_name(field.name)}"
            for field in type_.fields
        )
        return f"IF({text} IS NULL, NULL, struct({', '.join(fields)}))"
    assert type_.element is not None
    if type_.kind is SqlBaseType.ARRAY:
        return f"transform({text}, {name} -> {_with_sorted_maps(name, type_.element, depth + 1)})"
    value = _with_sorted_maps(f"({text})[{name}]", type_.element, depth + 1)
    entries = f"transform(array_sort(map_keys({text})), {name} -> struct({name}, {value}))"
    return f"map_from_entries({entries})"


HISTOGRAM_TEXT: Final = (
    "aggregate(collect_list({0}), CAST(map() AS map<string,bigint>), (m, v) -> "
    "IF(m[v] IS NULL AND size(m) >= 1000, m, "
    "map_concat(m, map(v, coalesce(m[v], 0L) + 1L))))"
)

COUNTING: Final = (
    _aggregate(
        "COUNT",
        "The number of rows, or of values that are not NULL.",
        [
            signature("-> BIGINT", "count(*)", aggregation=lambda _: builtin_udafs.CountUdaf()),
            signature(
                "T value -> BIGINT", "count({0})", aggregation=lambda _: builtin_udafs.CountUdaf()
            ),
        ],
        on_tables=True,
    ),
    _aggregate(
        "COUNT_DISTINCT",
        "The approximate number of distinct values, with an error of a few percent.",
        [
            signature(
                "T value -> BIGINT",
                "approx_count_distinct({0})",
                aggregation=lambda _: CountDistinctUdaf(),
            )
        ],
    ),
    _aggregate(
        "HISTOGRAM",
        "The number of occurrences of each text, as a map of at most 1000 texts.",
        [
            signature(
                "STRING value -> MAP<STRING, BIGINT>",
                HISTOGRAM_TEXT,
                aggregation=lambda _: builtin_udafs.HistogramUdaf(),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "ATTR",
        "The value, if it is the same in all rows; else NULL.",
        [signature("T value -> T", _attr, aggregation=lambda _: builtin_udafs.AttrUdaf())],
        on_tables=True,
    ),
)

STATISTICS: Final = (
    _aggregate(
        "AVG",
        "The mean of the values that are not NULL.",
        [
            signature(
                "DOUBLE value -> DOUBLE",
                "avg({0})",
                aggregation=lambda _: builtin_udafs.AverageUdaf(),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "CORRELATION",
        "Pearson's correlation of two columns; NaN if it is undefined. Rows with a NULL are "
        "ignored.",
        [
            signature(
                "DOUBLE x, DOUBLE y -> DOUBLE",
                _correlation,
                aggregation=lambda _: builtin_udafs.CorrelationUdaf(),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "STDDEV_SAMP",
        "The sample variance: ksqlDB's function has always returned the square of the deviation. "
        "STDDEV_SAMPLE is the deviation itself.",
        [
            signature(
                "DOUBLE value -> DOUBLE",
                "coalesce(var_samp({0}), 0.0D)",
                aggregation=lambda _: builtin_udafs.VarianceUdaf(root=False),
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
                aggregation=lambda _: builtin_udafs.VarianceUdaf(root=True),
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
            lambda call: builtin_udafs.SumUdaf(_zero(call)),
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
                aggregation=lambda call: builtin_udafs.SumUdaf(_zero(call), of_lists=True),
            )
            for kind in ("INTEGER", "BIGINT", "DOUBLE")
        ],
        on_tables=True,
    ),
)

CHOOSING: Final = (
    _aggregate(
        "COLLECT_LIST",
        "All values as an array, including NULLs.",
        [
            signature(
                "T value -> ARRAY<T>",
                _collect_list,
                aggregation=lambda call: builtin_udafs.CollectListUdaf(_limit(call, LIST_LIMIT)),
            )
        ],
        on_tables=True,
    ),
    _aggregate(
        "COLLECT_SET",
        "All distinct values as an array, in the order in which they came.",
        [
            signature(
                "T value -> ARRAY<T>",
                _collect_set,
                aggregation=lambda call: builtin_udafs.CollectSetUdaf(_limit(call, SET_LIMIT)),
            )
        ],
        keeps_order=True,
    ),
    _aggregate(
        "EARLIEST_BY_OFFSET",
        "The value of the first row, or of the first `count` rows. NULLs are ignored unless "
        "`ignoreNulls` is false.",
        _by_offset_signatures(latest=False),
        constants=(1, 2),
    ),
    _aggregate(
        "LATEST_BY_OFFSET",
        "The value of the last row, or of the last `count` rows. NULLs are ignored unless "
        "`ignoreNulls` is false.",
        _by_offset_signatures(latest=True),
        constants=(1, 2),
    ),
    _aggregate(
        "MAX",
        "The largest value.",
        _of_ordered("max({0})", lambda _: builtin_udafs.ExtremeUdaf(max, "MAX")),
    ),
    _aggregate(
        "MIN",
        "The smallest value.",
        _of_ordered("min({0})", lambda _: builtin_udafs.ExtremeUdaf(min, "MIN")),
    ),
    _aggregate(
        "TOPK",
        "The k largest values; with other columns, STRUCTs of `sort_col` and of `col0`, `col1` ...",
        [
            signature(
                "T value, INTEGER k -> ARRAY<T>",
                _top,
                aggregation=lambda call: builtin_udafs.TopKUdaf(call.constants[-1]),
            ),
            signature(
                "T value, ANY... others, INTEGER k -> ARRAY<T>",
                _top,
                returns=_top_type,
                aggregation=lambda call: builtin_udafs.TopKUdaf(
                    call.constants[-1], others=len(call.texts) - 2
                ),
            ),
        ],
        constants=(-1,),
    ),
    _aggregate(
        "TOPKDISTINCT",
        "The k largest distinct values.",
        [
            signature(
                "T value, INTEGER k -> ARRAY<T>",
                _top_distinct,
                aggregation=lambda call: builtin_udafs.TopKUdaf(call.constants[1], distinct=True),
            )
        ],
        constants=(1,),
    ),
)

AGGREGATES: Final = (*COUNTING, *STATISTICS, *CHOOSING)

GROWING: Final = frozenset({"COLLECT_LIST", "COLLECT_SET", "HISTOGRAM", "TOPKDISTINCT"})
"""Aggregates whose state in Spark grows with the rows or distinct values of a group."""
