"""Tasks in Spark's transformWithState: the key is the task's number, the rows are packed.

What is in Spark's state store is the nonce and the pages of each task; everything else is at home
(home.py), in a process that stays (hosting.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from ottla.spark.streams.run.home import Done
from ottla.spark.streams.run.hosting import AnyHome, home_of

QUERY_ID: Final = "sql.streaming.queryId"
OUTPUT: Final = "rows binary"


class Tasks(StatefulProcessor):
    """`plan` is a pickled Plan of so many `tasks`; `timed`: a processor may ask for the clock."""

    def __init__(self, plan: bytes, tasks: int, *, timed: bool) -> None:
        self._plan = plan
        self._tasks = tasks
        self._timed = timed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._nonce = handle.getValueState("nonce", "nonce binary")
        self._pages = handle.getMapState("pages", "page bigint", "data binary")
        self._home: AnyHome | None = None

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Any,
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        return self._step(key, [bytes(row["rows"]) for row in rows], timerValues)

    def handleExpiredTimer(  # noqa: N802 (Spark's names, which it calls it by)
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        return self._step(key, [], timerValues)

    def close(self) -> None:
        """The home stays; only our line to it goes."""
        home = getattr(self, "_home", None)
        if home is not None and hasattr(home, "close"):
            home.close()
        self._home = None

    def _step(self, key: Any, cells: list[bytes], timers: TimerValues) -> Iterator[Row]:
        number = int(key[0]) % self._tasks
        home = self._at_home()
        held = self._nonce.get()
        nonce = None if held is None else bytes(held[0])
        if not home.knows(number, nonce) and nonce is not None:
            home.load(number, nonce, self._read())
        now_ms = timers.getCurrentProcessingTimeInMs() if self._timed else None
        done = home.run(number, cells, now_ms)
        self._keep(done)
        row = Row("rows")
        return iter([row(each) for each in done.cells])

    def _read(self) -> Iterable[tuple[int, bytes]]:
        return [(int(key[0]), bytes(value[0])) for key, value in self._pages.iterator()]

    def _keep(self, done: Done) -> None:
        for number, data in done.pages:
            self._pages.updateValue((number,), (data,))
        for number in done.removed:
            self._pages.removeKey((number,))
        self._nonce.update((done.nonce,))
        if self._timed:
            self._set_timer(done.wall_clock_ms)

    def _set_timer(self, due_ms: int | None) -> None:
        for timer in list(self._handle.listTimers()):
            if timer != due_ms:
                self._handle.deleteTimer(timer)
        if due_ms is not None:
            self._handle.registerTimer(due_ms)

    def _at_home(self) -> AnyHome:
        if self._home is None:
            context = TaskContext.get()
            assert context is not None, "this runs in a task of Spark"
            query = context.getLocalProperty(QUERY_ID) or "query"
            self._home = home_of(f"{query}-{context.partitionId()}", self._plan)
        return self._home
