"""The aggregate functions in Python.

Those that ksqlDB allows on tables support `undo`; for others it raises."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.sql.functions.udaf import only_streams


class _IrreversibleUdaf:
    def undo(self, state: Any, *arguments: Any) -> Any:
        raise only_streams(type(self).__name__.upper())


class CountUdaf:
    """The number of rows, or of values that are not NULL."""

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
class SumUdaf:
    """The sum of numbers, or (`of_lists`) of the elements of arrays. `zero` has the result type."""

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
            sum((item for item in value if item is not None), self.zero) if self.of_lists else value
        )


class AverageUdaf:
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
class ExtremeUdaf(_IrreversibleUdaf):
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
class CollectListUdaf:
    """Values in order, including NULLs; at most `limit` of them."""

    limit: int | None = None

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return [*state, value][: self.limit]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *second][: self.limit]

    def undo(self, state: list[Any], value: Any) -> list[Any]:
        """Remove the last equal value, which is the right one for a row that was just replaced."""
        for index in reversed(range(len(state))):
            if state[index] == value:
                return [*state[:index], *state[index + 1 :]]
        return state

    def result(self, state: list[Any]) -> list[Any]:
        return state


@dataclass(frozen=True)
class CollectSetUdaf(_IrreversibleUdaf):
    """Distinct values, in order of their first occurrence."""

    limit: int | None = None

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any) -> list[Any]:
        return state if value in state else [*state, value][: self.limit]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *(item for item in second if item not in first)][: self.limit]

    def undo(self, state: list[Any], *arguments: Any) -> list[Any]:
        raise only_streams("COLLECT_SET")

    def result(self, state: list[Any]) -> list[Any]:
        return state


@dataclass(frozen=True)
class HistogramUdaf:
    """The number of occurrences of each text; at most `limit` texts are counted."""

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
class ByOffsetUdaf(_IrreversibleUdaf):
    """EARLIEST_BY_OFFSET and LATEST_BY_OFFSET. State: the first or last `count` values."""

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
class TopKUdaf(_IrreversibleUdaf):
    """The k largest values, or distinct values, with the values of other columns if given."""

    k: int
    distinct: bool = False
    others: int = 0

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], value: Any, *others: Any) -> list[Any]:
        return state if value is None else self.merge(state, [[value, *others]])

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        new = [item for item in second if not (self.distinct and item in first)]
        return sorted([*first, *new], key=lambda entry: entry[0], reverse=True)[: self.k]

    def undo(self, state: list[Any], *arguments: Any) -> list[Any]:
        raise only_streams("TOPKDISTINCT" if self.distinct else "TOPK")

    def result(self, state: list[Any]) -> list[Any]:
        if not self.others:
            return [item[0] for item in state]
        names = ["sort_col", *(f"col{index}" for index in range(self.others))]
        return [dict(zip(names, item, strict=True)) for item in state]


@dataclass(frozen=True)
class VarianceUdaf:
    """Sample variance, or its root. State: count, sum, sum of squared deviations. The algorithm is
    ksqlDB's (Youngs and Cramer), so that the last digits are the same."""

    root: bool

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0]

    def add(self, state: list[float], value: Any) -> list[float]:
        if value is None:
            return state
        count, total = state[0] + 1, state[1] + value
        return [count, total, state[2] + self._step(count, total, value)]

    def merge(self, first: list[float], second: list[float]) -> list[float]:
        (n, a, one), (m, b, two) = first, second
        if not n or not m:
            return first if n else second
        apart = m * a - n * b
        return [n + m, a + b, one + two + apart * apart / (n * m * (n + m))]

    def undo(self, state: list[float], value: Any) -> list[float]:
        count, total, squares = state
        if value is None:
            return state
        if count <= 1:
            return self.initial()
        return [count - 1, total - value, max(squares - self._step(count, total, value), 0.0)]

    def result(self, state: list[float]) -> float:
        """The variance; 0 for a single value, as in ksqlDB, while others return NULL."""
        variance = state[2] / (state[0] - 1) if state[0] > 1 else 0.0
        return math.sqrt(variance) if self.root else variance

    def _step(self, count: float, total: float, value: float) -> float:
        apart = count * value - total
        return apart * apart / (count * (count - 1)) if count > 1 else 0.0


class CorrelationUdaf:
    """Pearson's correlation. State: count, and sums of x, y, x * x, y * y, x * y, as in ksqlDB."""

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0, 0.0, 0.0, 0.0]

    def add(self, state: list[float], x: Any, y: Any) -> list[float]:
        if x is None or y is None:
            return state
        return self.merge(state, [1, x, y, x * x, y * y, x * y])

    def merge(self, first: list[float], second: list[float]) -> list[float]:
        return [left + right for left, right in zip(first, second, strict=True)]

    def undo(self, state: list[float], x: Any, y: Any) -> list[float]:
        if x is None or y is None:
            return state
        return self.merge(state, [-1, -x, -y, -x * x, -y * y, -x * y])

    def result(self, state: list[float]) -> float:
        n, x, y, xx, yy, xy = state
        of_x, of_y = n * xx - x * x, n * yy - y * y
        if of_x <= 0 or of_y <= 0:
            return math.nan
        return (n * xy - x * y) / math.sqrt(of_x * of_y)


class AttrUdaf:
    """The value, if it is the same in all rows. State: value as text -> [value, count]."""

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
        rest = {name: entry for name, entry in state.items() if name != key}
        return {**rest, key: [value, total]} if total > 0 else rest
