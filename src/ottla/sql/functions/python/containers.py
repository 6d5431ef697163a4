"""Arrays and maps, and the lambdas over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import product
from typing import Any

from ottla.rows.types import SqlType
from ottla.sql.conversions import text_of


def concatenated(first: list[Any] | None, second: list[Any] | None) -> list[Any] | None:
    if first is None or second is None:
        return second if first is None else first
    return [*first, *second]


def contains(values: list[Any] | None, element: Any) -> bool:
    return values is not None and element in values


def distinct(values: list[Any]) -> list[Any]:
    try:
        return list(dict.fromkeys(values))
    except TypeError:  # maps and arrays have no hash
        return [each for place, each in enumerate(values) if each not in values[:place]]


def without(first: list[Any], second: list[Any]) -> list[Any]:
    return distinct([each for each in first if each not in second])


def in_both(first: list[Any], second: list[Any]) -> list[Any]:
    return distinct([each for each in first if each in second])


def in_either(first: list[Any], second: list[Any]) -> list[Any]:
    return distinct([*first, *second])


def joined(_: SqlType, array: SqlType, *__: SqlType | None) -> Callable[..., Any]:
    assert array.element is not None
    show = text_of(array.element)

    def join(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
        if values is None:
            return None
        return (delimiter or "").join("null" if each is None else show(each) for each in values)

    return join


def order(value: Any) -> Any:
    """What values are sorted by: NaN is above all numbers, and NULL below all in a STRUCT."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    if isinstance(value, dict):
        return [(each is not None, order(each)) for each in value.values()]
    if isinstance(value, list):
        return [(each is not None, order(each)) for each in value]
    return value


def largest(values: list[Any]) -> Any:
    return max((each for each in values if each is not None), key=order, default=None)


def smallest(values: list[Any]) -> Any:
    return min((each for each in values if each is not None), key=order, default=None)


def removed(values: list[Any] | None, element: Any) -> list[Any] | None:
    return None if values is None else [each for each in values if each != element]


def in_order(values: list[Any], direction: str = "ASC") -> list[Any] | None:
    named = direction.upper()
    if not named.startswith(("ASC", "DESC")):
        return None
    known = [each for each in values if each is not None]
    nulls = [None] * (len(values) - len(known))
    return sorted(known, key=order, reverse=named.startswith("DESC")) + nulls


def series(start: int, end: int, step: int | None = None) -> list[int] | None:
    if step is None:
        step = 1 if start <= end else -1
    if step > 0 and start <= end:
        return list(range(start, end + 1, step))
    return list(range(start, end - 1, step)) if step < 0 and start >= end else None


def slice_of(values: list[Any] | None, from_: int | None, to: int | None) -> list[Any] | None:
    if values is None:
        return None
    begin = 1 if from_ is None else from_
    end = len(values) if to is None else min(to, len(values))
    return values[begin - 1 : end] if 1 <= begin <= len(values) and end >= begin - 1 else None


def map_of(keys: list[str | None], values: list[Any]) -> dict[str, Any]:
    pairs = zip(keys, values, strict=False)
    return {key: value for key, value in pairs if key is not None}


def entries(map_: dict[str, Any], in_order: bool) -> list[dict[str, Any]]:
    keys = sorted(map_) if in_order else map_
    return [{"K": key, "V": map_[key]} for key in keys]


def keys(map_: dict[Any, Any]) -> list[Any]:
    return list(map_)


def values(map_: dict[Any, Any]) -> list[Any]:
    return list(map_.values())


def union(first: dict[Any, Any] | None, second: dict[Any, Any] | None) -> dict[Any, Any] | None:
    if first is None or second is None:
        return second if first is None else first
    return {**first, **second}


# -- lambdas


def filtered(values: list[Any], condition: Callable[[Any], Any]) -> list[Any]:
    return [each for each in values if condition(each) is True]


def filtered_map(map_: dict[Any, Any], condition: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    return {key: value for key, value in map_.items() if condition(key, value) is True}


def reduced(values: list[Any] | None, state: Any, step: Callable[[Any, Any], Any]) -> Any:
    return state if values is None else reduce(step, values, state)


def reduced_map(
    map_: dict[Any, Any] | None, state: Any, step: Callable[[Any, Any, Any], Any]
) -> Any:
    for key, value in (map_ or {}).items():
        state = step(state, key, value)
    return state


def transformed(values: list[Any], make: Callable[[Any], Any]) -> list[Any]:
    return [make(each) for each in values]


def transformed_map(
    map_: dict[Any, Any],
    make_key: Callable[[Any, Any], Any],
    make_value: Callable[[Any, Any], Any],
) -> dict[Any, Any] | None:
    made = {make_key(key, value): make_value(key, value) for key, value in map_.items()}
    return None if None in made or len(made) < len(map_) else made


# -- rows


def combinations(values: list[Any]) -> list[list[Any]] | None:
    """Each with NULLs in the place of elements; a NULL element is one of these anyway."""
    if not values:
        return None
    choices = [[None] if each is None else [None, each] for each in values]
    return [list(each) for each in product(*choices)]


def elements(values: list[Any]) -> list[Any]:
    return values
