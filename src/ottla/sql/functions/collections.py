"""Functions of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.rows.types import SqlType
from ottla.sql.casts import to_string
from ottla.sql.comparable import comparable, has_map
from ottla.sql.functions.function_registry import Call
from ottla.sql.functions.python import arrays as python
from ottla.sql.functions.python_form import by_types, with_nulls
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Collections"

_SLICE: Final = (
    "CASE WHEN {from_} >= 1 AND {to} >= {from_} - 1 AND {from_} <= size({list}) "
    "THEN slice({list}, {from_}, {to} - {from_} + 1) END"
)
_SERIES: Final = (
    "CASE WHEN (CAST({2} AS int) > 0 AND {0} <= {1}) OR (CAST({2} AS int) < 0 AND {0} >= {1}) "
    "THEN sequence({0}, {1}, CAST({2} AS {kind})) END"
)


def _element(call: Call) -> SqlType:
    type_ = call.types[0]
    assert type_ is not None
    assert type_.element is not None
    return type_.element


def _found_in(array: str, call: Call, element: str) -> str:
    """A lambda's body: true if __x equals the element."""
    kind = _element(call)
    return f"{array}({call.texts[0]}, __x -> {{}}({comparable('__x', kind)} <=> {element}))"


def _contains(call: Call) -> str:
    element = comparable(call.texts[1], _element(call))
    return f"coalesce({_found_in('exists', call, element).format('')}, false)"


def _removed(call: Call) -> str:
    return _found_in("filter", call, comparable(call.texts[1], _element(call))).format("NOT ")


def _as_sets(spark: str) -> Callable[[Call], str]:
    """A set function of Spark. It can't compare maps, which are replaced by their entries."""

    def of(call: Call) -> str:
        kind = _element(call)
        if not has_map(kind):
            return spark.format(*call.texts)
        shown = f"__x -> struct({comparable('__x', kind)} AS k)"
        keys = spark.format(*(f"transform({text}, {shown})" for text in call.texts))
        all_ = " || ".join(f"coalesce({text}, array())" for text in call.texts)
        first = f"element_at(filter({all_}, __x -> {comparable('__x', kind)} <=> __k.k), 1)"
        return f"transform({keys}, __k -> {first})"

    return of


def _joined(call: Call) -> str:
    type_ = call.types[0]
    assert type_ is not None
    assert type_.element is not None
    delimiter = f"coalesce({call.texts[1]}, '')" if len(call.texts) > 1 else "','"
    shown = f"coalesce({to_string('x', type_.element, 1)}, 'null')"
    return f"array_join(transform({call.texts[0]}, x -> {shown}), {delimiter})"


def _slice(call: Call) -> str:
    list_, from_, to = call.texts
    return _SLICE.format(
        list=list_,
        from_=f"coalesce({from_}, 1)",
        to=f"least(coalesce({to}, size({list_})), size({list_}))",
    )


def _series(call: Call) -> str:
    element = call.returns.element
    assert element is not None
    start, end = call.texts[:2]
    step = call.texts[2] if len(call.texts) > 2 else f"IF({start} <= {end}, 1, -1)"
    return _SERIES.format(call.texts[0], call.texts[1], step, kind=element.spark)


def _entries(call: Call) -> str:
    entries = f"map_entries({call.texts[0]})"
    ordered = f"IF({call.texts[1]}, array_sort({entries}, {_BY_KEY}), {entries})"
    return f"transform({ordered}, e -> named_struct('K', e.key, 'V', e.value))"


_BY_KEY: Final = "(a, b) -> CASE WHEN a.key < b.key THEN -1 WHEN a.key > b.key THEN 1 ELSE 0 END"

ARRAYS: Final = (
    scalar(
        "ARRAY_CONCAT",
        FAMILY,
        "The elements of both arrays; a NULL array counts as empty.",
        signature(
            "ARRAY<T> first, ARRAY<T> second -> ARRAY<T>",
            "coalesce(concat({0}, {1}), {0}, {1})",
            python=with_nulls(python.array_concat),
        ),
    ),
    scalar(
        "ARRAY_CONTAINS",
        FAMILY,
        "True if the array contains the element.",
        signature(
            "ARRAY<T> array, T element -> BOOLEAN",
            _contains,
            python=with_nulls(python.array_contains),
        ),
    ),
    scalar(
        "ARRAY_DISTINCT",
        FAMILY,
        "The distinct elements, in order of their first occurrence.",
        signature(
            "ARRAY<T> array -> ARRAY<T>",
            _as_sets("array_distinct({0})"),
            python=python.array_distinct,
        ),
    ),
    scalar(
        "ARRAY_EXCEPT",
        FAMILY,
        "The distinct elements of the first array that are not in the second.",
        signature(
            "ARRAY<T> first, ARRAY<T> second -> ARRAY<T>",
            _as_sets("array_except({0}, {1})"),
            python=python.array_except,
        ),
    ),
    scalar(
        "ARRAY_INTERSECT",
        FAMILY,
        "The distinct elements that are in both arrays, in the order of the first.",
        signature(
            "ARRAY<T> first, ARRAY<T> second -> ARRAY<T>",
            _as_sets("array_intersect({0}, {1})"),
            python=python.array_intersect,
        ),
    ),
    scalar(
        "ARRAY_JOIN",
        FAMILY,
        "The elements as one text, with a delimiter between them (default: a comma).",
        *[
            signature(
                f"ARRAY<T> array{delimiter} -> STRING",
                _joined,
                python=by_types(python.array_join, takes_nulls=True),
            )
            for delimiter in ("", ", STRING delimiter")
        ],
    ),
    scalar(
        "ARRAY_LENGTH",
        FAMILY,
        "The number of elements of an array.",
        signature("ARRAY<T> array -> INTEGER", "IF({0} IS NULL, NULL, size({0}))", python=len),
    ),
    scalar(
        "ARRAY_MAX",
        FAMILY,
        "The largest element; NULLs are ignored.",
        signature("ARRAY<T> array -> T", "array_max({0})", python=python.array_max),
    ),
    scalar(
        "ARRAY_MIN",
        FAMILY,
        "The smallest element; NULLs are ignored.",
        signature("ARRAY<T> array -> T", "array_min({0})", python=python.array_min),
    ),
    scalar(
        "ARRAY_REMOVE",
        FAMILY,
        "The array without all occurrences of an element.",
        signature(
            "ARRAY<T> array, T element -> ARRAY<T>",
            _removed,
            python=with_nulls(python.array_remove),
        ),
    ),
    scalar(
        "ARRAY_SORT",
        FAMILY,
        "The sorted elements, `ASC` (default) or `DESC`, with NULLs at the end.",
        signature("ARRAY<T> array -> ARRAY<T>", "array_sort({0})", python=python.array_sort),
        signature(
            "ARRAY<T> array, STRING direction -> ARRAY<T>",
            "CASE WHEN upper({1}) LIKE 'DESC%' THEN sort_array({0}, false) "
            "WHEN upper({1}) LIKE 'ASC%' THEN array_sort({0}) END",
            python=python.array_sort,
        ),
    ),
    scalar(
        "ARRAY_UNION",
        FAMILY,
        "The distinct elements of both arrays, in order of their first occurrence.",
        signature(
            "ARRAY<T> first, ARRAY<T> second -> ARRAY<T>",
            _as_sets("array_union({0}, {1})"),
            python=python.array_union,
        ),
    ),
    scalar(
        "GENERATE_SERIES",
        FAMILY,
        "All numbers from `start` to `end`, inclusive, in steps of `step` (default: 1, or -1 if"
        " `start` is larger).",
        *[
            signature(
                f"{kind} start, {kind} end{step} -> ARRAY<{kind}>",
                _series,
                python=python.generate_series,
            )
            for step in ("", ", INTEGER step")
            for kind in ("INTEGER", "BIGINT")
        ],
    ),
    scalar(
        "SLICE",
        FAMILY,
        "The elements from one position to another, inclusive; positions start at 1.",
        signature(
            "ARRAY<T> array, INTEGER from, INTEGER to -> ARRAY<T>",
            _slice,
            python=with_nulls(python.slice_array),
        ),
    ),
)

MAPS: Final = (
    scalar(
        "AS_MAP",
        FAMILY,
        "A map, made of an array of keys and an array of values.",
        signature(
            "ARRAY<STRING> keys, ARRAY<V> values -> MAP<STRING, V>",
            "map_from_entries(filter(arrays_zip(slice({0}, 1, least(size({0}), size({1}))), "
            "slice({1}, 1, least(size({0}), size({1})))), e -> e.`0` IS NOT NULL))",
            python=python.as_map,
        ),
    ),
    scalar(
        "ENTRIES",
        FAMILY,
        "The entries of a map as STRUCTs of K and V, sorted by key if `sorted` is true.",
        signature(
            "MAP<STRING, V> map, BOOLEAN sorted -> ARRAY<STRUCT<K STRING, V V>>",
            _entries,
            python=python.entries,
        ),
    ),
    scalar(
        "MAP_KEYS",
        FAMILY,
        "The keys of a map.",
        signature("MAP<K, V> map -> ARRAY<K>", "map_keys({0})", python=python.map_keys),
    ),
    scalar(
        "MAP_UNION",
        FAMILY,
        "The entries of both maps; for a key in both, the value of the second.",
        signature(
            "MAP<K, V> first, MAP<K, V> second -> MAP<K, V>",
            "coalesce(map_concat({0}, {1}), {0}, {1})",
            python=with_nulls(python.map_union),
        ),
    ),
    scalar(
        "MAP_VALUES",
        FAMILY,
        "The values of a map.",
        signature("MAP<K, V> map -> ARRAY<V>", "map_values({0})", python=python.map_values),
    ),
)

COLLECTIONS: Final = (*ARRAYS, *MAPS)
