"""Functions of arrays and maps, including those with lambdas."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

from ottla.rows.types import SqlType
from ottla.sql.conversions import text_of


def array_concat(first: list[Any] | None, second: list[Any] | None) -> list[Any] | None:
    if first is None or second is None:
        return second if first is None else first
    return [*first, *second]


def array_contains(values: list[Any] | None, element: Any) -> bool:
    return values is not None and element in values


def array_distinct(values: list[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # dicts and lists are not hashable
        return [value for index, value in enumerate(values) if value not in values[:index]]


def array_except(first: list[Any], second: list[Any]) -> list[Any]:
    return array_distinct([item for item in first if item not in second])


def array_intersect(first: list[Any], second: list[Any]) -> list[Any]:
    return array_distinct([item for item in first if item in second])


def array_union(first: list[Any], second: list[Any]) -> list[Any]:
    return array_distinct([*first, *second])


def array_join(_: SqlType, array: SqlType, *__: SqlType | None) -> Callable[..., Any]:
    assert array.element is not None
    show = text_of(array.element)

    def join(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
        if values is None:
            return None
        return (delimiter or "").join("null" if value is None else show(value) for value in values)

    return join


def sort_key(value: Any) -> Any:
    """The sort key of a value: NaN is greater than all numbers, NULL in a STRUCT is the
    smallest."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    if isinstance(value, dict):
        return [(item is not None, sort_key(item)) for item in value.values()]
    if isinstance(value, list):
        return [(item is not None, sort_key(item)) for item in value]
    return value


def array_max(values: list[Any]) -> Any:
    return max((value for value in values if value is not None), key=sort_key, default=None)


def array_min(values: list[Any]) -> Any:
    return min((value for value in values if value is not None), key=sort_key, default=None)


def array_remove(values: list[Any] | None, element: Any) -> list[Any] | None:
    return None if values is None else [value for value in values if value != element]


def array_sort(values: list[Any], direction: str = "ASC") -> list[Any] | None:
    named = direction.upper()
    if not named.startswith(("ASC", "DESC")):
        return None
    known = [value for value in values if value is not None]
    nulls = [None] * (len(values) - len(known))
    return sorted(known, key=sort_key, reverse=named.startswith("DESC")) + nulls


def generate_series(start: int, end: int, step: int | None = None) -> list[int] | None:
    if step is None:
        step = 1 if start <= end else -1
    if step > 0 and start <= end:
        return list(range(start, end + 1, step))
    return list(range(start, end - 1, step)) if step < 0 and start >= end else None


def slice_array(values: list[Any] | None, from_: int | None, to: int | None) -> list[Any] | None:
    if values is None:
        return None
    begin = 1 if from_ is None else from_
    end = len(values) if to is None else min(to, len(values))
    return values[begin - 1 : end] if 1 <= begin <= len(values) and end >= begin - 1 else None


def as_map(keys: list[str | None], values: list[Any]) -> dict[str, Any]:
    pairs = zip(keys, values, strict=False)
    return {key: value for key, value in pairs if key is not None}


def entries(map_: dict[str, Any], in_order: bool) -> list[dict[str, Any]]:
    keys = sorted(map_) if in_order else map_
    return [{"K": key, "V": map_[key]} for key in keys]


def map_keys(map_: dict[Any, Any]) -> list[Any]:
    return list(map_)


def map_values(map_: dict[Any, Any]) -> list[Any]:
    return list(map_.values())


def map_union(first: dict[Any, Any] | None, second: dict[Any, Any] | None) -> dict[Any, Any] | None:
    if first is None or second is None:
        return second if first is None else first
    return {**first, **second}


# -- lambdas


def filter_array(values: list[Any], condition: Callable[[Any], Any]) -> list[Any]:
    return [value for value in values if condition(value) is True]


def filter_map(map_: dict[Any, Any], condition: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    return {key: value for key, value in map_.items() if condition(key, value) is True}


def reduce_array(values: list[Any] | None, state: Any, step: Callable[[Any, Any], Any]) -> Any:
    return state if values is None else reduce(step, values, state)


def reduce_map(
    map_: dict[Any, Any] | None, state: Any, step: Callable[[Any, Any, Any], Any]
) -> Any:
    for key, value in (map_ or {}).items():
        state = step(state, key, value)
    return state


def transform_array(values: list[Any], make: Callable[[Any], Any]) -> list[Any]:
    return [make(value) for value in values]


def transform_map(
    map_: dict[Any, Any],
    make_key: Callable[[Any, Any], Any],
    make_value: Callable[[Any, Any], Any],
) -> dict[Any, Any] | None:
    made = {make_key(key, value): make_value(key, value) for key, value in map_.items()}
    return None if None in made or len(made) < len(map_) else made


# -- rows


def cube_explode(values: list[Any]) -> list[list[Any]] | None:
    """All combinations of elements and NULLs; a NULL element gives no second combination."""
    if not values:
        return None
    choices = [[None] if value is None else [None, value] for value in values]
    return [list(combination) for combination in product(*choices)]


def explode(values: list[Any]) -> list[Any]:
    return values
