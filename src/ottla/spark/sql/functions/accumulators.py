"""The aggregates in Python: each takes rows in, some take them back, and two states can be merged.

`undo` is there for those that ksqlDB allows on tables, and raises for the others."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.spark.sql.functions.aggregation import only_streams


class _Irreversible:
    def undo(self, state: Any, *arguments: Any) -> Any:
        raise only_streams(type(self).__name__.upper())


class Count:
    """Of rows, or of values that are not NULL."""

    def initial(self) -> int:
        return 0

    def add(self, state: int, *arguments: Any) -> int:
        return state + (arguments != (None,))

    def merge(self, first: int, second: int) -> int:
        return first + second

    def undo(self, state: int, *arguments: Any) -> int:
        return state - (arguments != (None,))

    def result(self, state: int) -> int:
        return state


@dataclass(frozen=True)
class Sum:
    """Of numbers, or (`of_lists`) of all numbers in arrays. `zero` has the type of the result."""

    zero: Any
    of_lists: bool = False

    def initial(self) -> Any:
        return self.zero

    def add(self, state: Any, value: Any) -> Any:
        return state + self._part(value)

    def merge(self, first: Any, second: Any) -> Any:
        return first + second

    def undo(self, state: Any, value: Any) -> Any:
        return state - self._part(value)

    def result(self, state: Any) -> Any:
        return state

    def _part(self, value: Any) -> Any:
        if value is None:
            return self.zero
        return (
            sum((each for each in value if each is not None), self.zero) if self.of_lists else value
        )


class Average:
    """State: count and sum."""

    def initial(self) -> list[Any]:
        return [0, 0]

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return state if value is None else [state[0] + 1, state[1] + value]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [first[0] + second[0], first[1] + second[1]]

    def undo(self, state: list[Any], value: Any) -> list[Any]:
        return state if value is None else [state[0] - 1, state[1] - value]

    def result(self, state: list[Any]) -> float | None:
        return float(state[1]) / state[0] if state[0] else None


@dataclass(frozen=True)
class Extreme(_Irreversible):
    """MIN or MAX."""

    choose: Callable[[Any, Any], Any]
    name: str

    def initial(self) -> Any:
        return None

    def add(self, state: Any, value: Any) -> Any:
        return self.merge(state, value)

    def merge(self, first: Any, second: Any) -> Any:
        if first is None or second is None:
            return second if first is None else first
        return self.choose(first, second)

    def undo(self, state: Any, *arguments: Any) -> Any:
        raise only_streams(self.name)

    def result(self, state: Any) -> Any:
        return state


@dataclass(frozen=True)
class CollectList:
    """Values in their order, NULLs too; what comes after `limit` of them is not taken."""

    limit: int | None = None

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return [*state, value][: self.limit]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *second][: self.limit]

    def undo(self, state: list[Any], value: Any) -> list[Any]:
        """The last that is equal: for a row that was just replaced that is the right one."""
        for place in reversed(range(len(state))):
            if state[place] == value:
                return [*state[:place], *state[place + 1 :]]
        return state

    def result(self, state: list[Any]) -> list[Any]:
        return state


@dataclass(frozen=True)
class CollectSet(_Irreversible):
    """Distinct values, in the order of their first coming."""

    limit: int | None = None

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return state if value in state else [*state, value][: self.limit]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *(each for each in second if each not in first)][: self.limit]

    def undo(self, state: list[Any], *arguments: Any) -> list[Any]:
        raise only_streams("COLLECT_SET")

    def result(self, state: list[Any]) -> list[Any]:
        return state


@dataclass(frozen=True)
class Histogram:
    """How often each text came; of more than `limit` texts the later ones are not counted."""

    limit: int = 1000

    def initial(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], value: str | None) -> dict[str, int]:
        return self._plus(state, value, 1)

    def merge(self, first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
        for value, count in second.items():
            first = self._plus(first, value, count)
        return first

    def undo(self, state: dict[str, int], value: str | None) -> dict[str, int]:
        left = state.get(value or "", 0) - 1
        if value is None or value not in state:
            return state
        return {**state, value: left} if left else {k: n for k, n in state.items() if k != value}

    def result(self, state: dict[str, int]) -> dict[str, int]:
        return state

    def _plus(self, state: dict[str, int], value: str | None, count: int) -> dict[str, int]:
        if value is None or (value not in state and len(state) >= self.limit):
            return state
        return {**state, value: state.get(value, 0) + count}


@dataclass(frozen=True)
class ByOffset(_Irreversible):
    """EARLIEST_BY_OFFSET and LATEST_BY_OFFSET: state is the first, or last, `count` values."""

    latest: bool
    count: int
    single: bool
    ignore_nulls: bool

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return state if value is None and self.ignore_nulls else self.merge(state, [value])

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        both = [*first, *second]
        return both[-self.count :] if self.latest else both[: self.count]

    def undo(self, state: list[Any], *arguments: Any) -> list[Any]:
        raise only_streams("LATEST_BY_OFFSET" if self.latest else "EARLIEST_BY_OFFSET")

    def result(self, state: list[Any]) -> Any:
        if not self.single:
            return state
        return state[0] if state else None


@dataclass(frozen=True)
class TopK(_Irreversible):
    """The k largest values, each once if `distinct`; with others beside them if there are some."""

    k: int
    distinct: bool = False
    others: int = 0

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any, *others: Any) -> list[Any]:
        return state if value is None else self.merge(state, [[value, *others]])

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        new = [each for each in second if not (self.distinct and each in first)]
        return sorted([*first, *new], key=lambda each: each[0], reverse=True)[: self.k]

    def undo(self, state: list[Any], *arguments: Any) -> list[Any]:
        raise only_streams("TOPKDISTINCT" if self.distinct else "TOPK")

    def result(self, state: list[Any]) -> list[Any]:
        if not self.others:
            return [each[0] for each in state]
        names = ["sort_col", *(f"col{place}" for place in range(self.others))]
        return [dict(zip(names, each, strict=True)) for each in state]


@dataclass(frozen=True)
class Spread:
    """Sample variance, or its root. State: count, mean, sum of squared distances (Welford's)."""

    root: bool

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0]

    def add(self, state: list[float], value: Any) -> list[float]:
        return state if value is None else self.merge(state, [1, float(value), 0.0])

    def merge(self, first: list[float], second: list[float]) -> list[float]:
        count = first[0] + second[0]
        if not count:
            return first
        step = second[1] - first[1]
        mean = first[1] + step * second[0] / count
        return [count, mean, first[2] + second[2] + step * step * first[0] * second[0] / count]

    def undo(self, state: list[float], value: Any) -> list[float]:
        if value is None:
            return state
        count = state[0] - 1
        if count <= 0:
            return self.initial()
        mean = (state[1] * state[0] - value) / count
        return [count, mean, max(state[2] - (value - mean) * (value - state[1]), 0.0)]

    def result(self, state: list[float]) -> float:
        """Of one value it is 0: ksqlDB says so, where others say NULL."""
        variance = state[2] / (state[0] - 1) if state[0] > 1 else 0.0
        return math.sqrt(variance) if self.root else variance


class Correlation:
    """Pearson's. State: count, means of x and y, and the three sums of squares and products."""

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0, 0.0, 0.0, 0.0]

    def add(self, state: list[float], x: Any, y: Any) -> list[float]:
        if x is None or y is None:
            return state
        return self.merge(state, [1, float(x), float(y), 0.0, 0.0, 0.0])

    def merge(self, first: list[float], second: list[float]) -> list[float]:
        n, m = first[0], second[0]
        if not n + m:
            return first
        dx, dy, share = second[1] - first[1], second[2] - first[2], n * m / (n + m)
        means = [first[place] + d * m / (n + m) for place, d in ((1, dx), (2, dy))]
        steps = (dx * dx, dy * dy, dx * dy)
        sums = [first[3 + i] + second[3 + i] + each * share for i, each in enumerate(steps)]
        return [n + m, *means, *sums]

    def undo(self, state: list[float], x: Any, y: Any) -> list[float]:
        if x is None or y is None:
            return state
        n = state[0] - 1
        if n <= 0:
            return self.initial()
        mx, my = ((state[i] * state[0] - each) / n for i, each in ((1, x), (2, y)))
        dx, dy, share = x - mx, y - my, n / (n + 1)
        sums = [state[3 + i] - each * share for i, each in enumerate((dx * dx, dy * dy, dx * dy))]
        return [n, mx, my, *sums]

    def result(self, state: list[float]) -> float:
        _, _, _, xx, yy, xy = state
        return xy / math.sqrt(xx * yy) if xx > 0 and yy > 0 else math.nan


class Attr:
    """The value, if it is the same in all rows. State: each value as text -> [value, count]."""

    def initial(self) -> dict[str, list[Any]]:
        return {}

    def add(self, state: dict[str, list[Any]], value: Any) -> dict[str, list[Any]]:
        return self._plus(state, value, 1)

    def merge(
        self, first: dict[str, list[Any]], second: dict[str, list[Any]]
    ) -> dict[str, list[Any]]:
        for value, count in second.values():
            first = self._plus(first, value, count)
        return first

    def undo(self, state: dict[str, list[Any]], value: Any) -> dict[str, list[Any]]:
        return self._plus(state, value, -1)

    def result(self, state: dict[str, list[Any]]) -> Any:
        return next(iter(state.values()))[0] if len(state) == 1 else None

    def _plus(self, state: dict[str, list[Any]], value: Any, count: int) -> dict[str, list[Any]]:
        key = json.dumps(value, sort_keys=True, default=repr)
        total = state.get(key, [value, 0])[1] + count
        rest = {each: entry for each, entry in state.items() if each != key}
        return {**rest, key: [value, total]} if total > 0 else rest
