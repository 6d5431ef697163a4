"""A push query: rows go to whoever asked, as they come, until somebody has had enough."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.running.kept import Kept
from ottla.spark.running.states import QueryState, State, worst
from ottla.spark.sql.plan.stages import Plan
from ottla.spark.sql.run.rows import python_rows
from ottla.spark.sql.schema import DELETED, Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_QUEUED_MAX: Final = 10_000
PUT_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class PushRow:
    """`deleted`: the row of a table is gone; only its key says something."""

    values: tuple[Any, ...]
    deleted: bool = False


class PushQuery:
    """Rows of a query that runs for one listener. A slow listener slows the query down."""

    def __init__(self, query_id: str, plan: Plan, home: Path, forget: Callable[[], None]) -> None:
        self.id = query_id
        self.plan = plan
        self._home = home
        self._forget = forget
        self._rows: queue.Queue[PushRow] = queue.Queue(ROWS_QUEUED_MAX)
        self._left = plan.limit
        self._closed = threading.Event()
        self._parts: list[Kept] = []
        self._lock = threading.Lock()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.plan.schema.columns

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def state(self) -> QueryState:
        return worst(each.state() for each in self._parts)

    def started(self, parts: list[Kept]) -> None:
        self._parts = parts

    def next(self, timeout_s: float) -> PushRow | None:
        """The next row; None if none came in time, or none will come (`closed`).

        RuntimeError with the cause if the query has failed.
        """
        if self._left == 0:
            self.close()
            return None
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                row = self._rows.get(timeout=max(min(deadline - time.monotonic(), PUT_S), 0.001))
            except queue.Empty:
                if self.closed or time.monotonic() >= deadline:
                    return None
                state = self.state
                if state.state is State.FAILED:
                    self.close()
                    raise RuntimeError(state.cause) from None
                continue
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self._close_soon()
            return row

    def rows(self, timeout_s: float) -> Iterator[PushRow]:
        """Until the limit, the end, or `timeout_s` without a row."""
        while (row := self.next(timeout_s)) is not None:
            yield row

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        for each in self._parts:
            each.stop()
        shutil.rmtree(self._home, ignore_errors=True)
        self._forget()

    def _close_soon(self) -> None:
        """Spark takes a moment to stop; the one who waits for the last row need not."""
        threading.Thread(target=self.close, name=f"close {self.id}", daemon=True).start()

    def take(self, frame: DataFrame, _: int) -> None:
        """Called by Spark with the rows of each batch."""
        table = frame.toArrow()
        flags = table.column(DELETED).to_pylist()
        values = python_rows(table, self.columns)
        for row, deleted in zip(values, flags, strict=True):
            if deleted and not self.plan.layout.is_table:
                continue
            self._put(PushRow(row, bool(deleted)))
            if self.closed:
                return

    def _put(self, row: PushRow) -> None:
        while not self.closed:
            try:
                return self._rows.put(row, timeout=PUT_S)
            except queue.Full:
                continue
