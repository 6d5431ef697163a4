"""Functions that take a lambda. `{v0}` is its first argument in Spark SQL."""

from __future__ import annotations

from typing import Final

from ottla.sql.functions.python import arrays
from ottla.sql.functions.python_form import with_nulls
from ottla.sql.functions.scalar import scalar, signature

FAMILY: Final = "Lambdas"

_MAPPED: Final = "map_values(transform_values({0}, ({v0}, {v1}) -> {%d}))"
_TRANSFORMED: Final = (
    f"IF(exists({_MAPPED % 1}, k -> k IS NULL) OR "
    f"size(array_distinct({_MAPPED % 1})) < size({_MAPPED % 1}), NULL, "
    f"map_from_arrays({_MAPPED % 1}, {_MAPPED % 2}))"
)

LAMBDAS: Final = (
    scalar(
        "FILTER",
        FAMILY,
        "The elements of an array, or the entries of a map, for which the lambda is true.",
        signature(
            "ARRAY<T> array, LAMBDA(T) => BOOLEAN condition -> ARRAY<T>",
            "filter({0}, {v0} -> coalesce({1}, false))",
            python=arrays.filter_array,
        ),
        signature(
            "MAP<K, V> map, LAMBDA(K, V) => BOOLEAN condition -> MAP<K, V>",
            "map_filter({0}, ({v0}, {v1}) -> coalesce({1}, false))",
            python=arrays.filter_map,
        ),
    ),
    scalar(
        "REDUCE",
        FAMILY,
        "Reduces a collection to one value: the lambda gets the state so far, at first `state`, "
        "and each element in turn.",
        signature(
            "ARRAY<T> array, S state, LAMBDA(S, T) => S step -> S",
            "IF({0} IS NULL, {1}, aggregate({0}, {1}, ({v0}, {v1}) -> {2}))",
            python=with_nulls(arrays.reduce_array),
        ),
        signature(
            "MAP<K, V> map, S state, LAMBDA(S, K, V) => S step -> S",
            "IF({0} IS NULL, {1}, aggregate(map_entries({0}), {1}, ({v0}, {v1}) -> {2}))",
            variables=("{v0}", "{v1}.key", "{v1}.value"),
            python=with_nulls(arrays.reduce_map),
        ),
    ),
    scalar(
        "TRANSFORM",
        FAMILY,
        "The results of the lambda for all elements; for a map, one lambda makes the keys and one "
        "the values.",
        signature(
            "ARRAY<T> array, LAMBDA(T) => U make -> ARRAY<U>",
            "transform({0}, {v0} -> {1})",
            python=arrays.transform_array,
        ),
        signature(
            "MAP<K, V> map, LAMBDA(K, V) => L key, LAMBDA(K, V) => U value -> MAP<L, U>",
            _TRANSFORMED,
            python=arrays.transform_map,
        ),
    ),
)
