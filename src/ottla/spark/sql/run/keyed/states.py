"""How the machines run in Spark's transformWithState: what they know is pickled, by key.

Spark hands over one key at a time with its rows of the batch. A struct is a dict here, a map a list
of pairs; what goes back is the same.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, MutableMapping
from itertools import chain
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

STATE: Final = "state binary"

Rows = Iterator[Row]
Results = Iterator[tuple[Any, ...]]
Work = Callable[[Any, Any, Rows], Results]


class OneValue(StatefulProcessor):
    """One value for each key: `work(state, key, rows)` changes it, and gives rows.

    A state that is false (an empty dict or list) is not kept.
    """

    def __init__(self, initial: Callable[[], Any], work: Work, names: list[str]) -> None:
        self._initial = initial
        self._work = work
        self._names = names

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._held = handle.getValueState("state", STATE)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Any, timers: TimerValues
    ) -> Iterator[Row]:
        held = self._held.get()
        state = self._initial() if held is None else pickle.loads(held[0])
        key, rows = key_of(rows)
        yield from named(self._work(state, key, rows), self._names)
        if state:
            now = pickled(state)
            if held is None or now != held[0]:  # a row of a stream leaves the table as it is
                self._held.update((now,))
        elif held is not None:
            self._held.clear()

    def close(self) -> None:
        pass


class ValueAndMap(StatefulProcessor):
    """A value and a map for each key, for what has many parts: `work((state, map), key, rows)`."""

    def __init__(self, initial: Callable[[], Any], work: Work, names: list[str]) -> None:
        self._initial = initial
        self._work = work
        self._names = names

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._held = handle.getValueState("state", STATE)
        self._map = handle.getMapState("parts", "name binary", "part binary")

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Any, timers: TimerValues
    ) -> Iterator[Row]:
        held = self._held.get()
        state = self._initial() if held is None else pickle.loads(held[0])
        key, rows = key_of(rows)
        yield from named(self._work((state, Pickled(self._map)), key, rows), self._names)
        self._held.update((pickled(state),))

    def close(self) -> None:
        pass


class Pickled(MutableMapping[Any, Any]):
    """Spark's map of bytes as one of Python's things."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def __getitem__(self, key: Any) -> Any:
        found = self._state.getValue((pickled(key),))
        if found is None:
            raise KeyError(key)
        return pickle.loads(found[0])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._state.updateValue((pickled(key),), (pickled(value),))

    def __delitem__(self, key: Any) -> None:
        self._state.removeKey((pickled(key),))

    def __iter__(self) -> Iterator[Any]:
        return (pickle.loads(key[0]) for key in self._state.keys())  # noqa: SIM118 (no dict)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Timed(StatefulProcessor):
    """One value for each key, which is looked at again when the watermark has passed its due time.

    `work(state, key, rows, watermark_ms)` gives rows and changes the state, with no rows once it is
    due; `due_ms(state)` says when that is, None for never.
    """

    def __init__(
        self,
        initial: Callable[[], Any],
        work: Callable[[Any, Any, Rows, int], Results],
        due_ms: Callable[[Any], int | None],
        names: list[str],
    ) -> None:
        self._initial = initial
        self._work = work
        self._due_ms = due_ms
        self._names = names

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._held = handle.getValueState("state", STATE)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: Any, rows: Any, timers: TimerValues
    ) -> Iterator[Row]:
        yield from self._step(key, rows, timers)

    def handleExpiredTimer(  # noqa: N802 (Spark's names, which it calls it by)
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        yield from self._step(key, iter(()), timerValues)

    def close(self) -> None:
        pass

    def _step(self, key: Any, rows: Any, timers: TimerValues) -> Iterator[Row]:
        held = self._held.get()
        state = self._initial() if held is None else pickle.loads(held[0])
        watermark_ms = timers.getCurrentWatermarkInMs()
        key, rows = key_of(rows)
        yield from named(self._work(state, key, rows, watermark_ms), self._names)
        self._set_timer(self._due_ms(state))
        if state:
            self._held.update((pickled(state),))
        elif held is not None:
            self._held.clear()

    def _set_timer(self, due_ms: int | None) -> None:
        for timer in list(self._handle.listTimers()):
            if timer != due_ms:
                self._handle.deleteTimer(timer)
        if due_ms is not None:
            self._handle.registerTimer(due_ms)


def key_of(rows: Rows) -> tuple[Any, Rows]:
    """The key as its rows have it (what Spark keeps state by may be the text of it), and the rows.
    None where there are none: a timer gives no row of its own."""
    first = next(rows, None)
    return (None, iter(())) if first is None else (first["key"], chain((first,), rows))


def named(results: Results, names: list[str]) -> Iterator[Row]:
    row_of = Row(*names)
    for values in results:
        yield row_of(*values)


def pickled(value: Any) -> bytes:
    """The same bytes for equal values: `fast` leaves out who shares which object with whom."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, pickle.HIGHEST_PROTOCOL)
    pickler.fast = True
    pickler.dump(value)
    return written.getvalue()
