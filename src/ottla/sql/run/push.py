"""Push queries: rows go to a client as they come, until the limit or until it closes the query."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.states import QueryState, QueryStatus, worst
from ottla.queries.supervisor import SupervisedQuery
from ottla.rows.schema import DELETED, PSEUDO_COLUMNS, WINDOW_BOUNDS, Column, Role
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.run.frames import GONE, IDENTITY
from ottla.sql.run.rows import python_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_QUEUED_MAX: Final = 10_000
PUT_S: Final = 0.1
SHOWN_MAX: Final = 1_000_000
"""The number of keys that are remembered as shown, for tombstones."""
KEPT: Final = frozenset({*PSEUDO_COLUMNS, *WINDOW_BOUNDS})


@dataclass(frozen=True, slots=True)
class PushRow:
    """`deleted`: a tombstone; only the key has values."""

    values: tuple[Any, ...]
    deleted: bool = False


class PushQuery:
    """Rows of a query for one client. A slow client slows its query down."""

    def __init__(
        self, query_id: str, plan: QueryPlan, home: Path, forget: Callable[[], None]
    ) -> None:
        self.id = query_id
        self.plan = plan
        self._home = home
        self._forget = forget
        self._rows: queue.Queue[PushRow] = queue.Queue(ROWS_QUEUED_MAX)
        self._left = plan.limit
        self._shown: set[str] | None = set()
        self._closed = threading.Event()
        self._parts: list[SupervisedQuery] = []
        self._lock = threading.Lock()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.plan.schema.columns

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def state(self) -> QueryState:
        return worst(part.state() for part in self._parts)

    def started(self, parts: list[SupervisedQuery]) -> None:
        self._parts = parts

    def next(self, timeout_s: float) -> PushRow | None:
        """The next row; None after the timeout, or at the end (`closed`).

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
                if state.state is QueryStatus.FAILED:
                    self.close()
                    raise RuntimeError(state.cause) from None
                continue
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self._close_soon()
            return row

    def rows(self, timeout_s: float) -> Iterator[PushRow]:
        """Rows until the limit, the end, or `timeout_s` without a row."""
        while (row := self.next(timeout_s)) is not None:
            yield row

    def close(self) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        for part in self._parts:
            part.stop_soon()
        for part in self._parts:
            part.stop()
        shutil.rmtree(self._home, ignore_errors=True)
        self._forget()

    def _close_soon(self) -> None:
        """Stop in the background: the client should not wait for Spark after the last row."""
        threading.Thread(target=self.close, name=f"close {self.id}", daemon=True).start()

    def take(self, frame: DataFrame, _: int) -> None:
        """Called by Spark with the rows of each batch."""
        table = frame.toArrow()
        flags = table.column(DELETED).to_pylist()
        values = python_rows(table, self.columns)
        if self.plan.layout.is_table:
            keys = (table.column(name).to_pylist() for name in (IDENTITY, GONE))
            wanted = list(map(self._is_news, flags, *keys))
        else:
            wanted = [not flag for flag in flags]
        for row, deleted, news in zip(values, flags, wanted, strict=True):
            if news:
                self._put(PushRow(self._key_of(row) if deleted else row, bool(deleted)))
            if self.closed:
                return

    def take_row(self, row: tuple[Any, ...], deleted: bool) -> None:
        if not self.closed:
            self._put(PushRow(self._key_of(row) if deleted else row, deleted))

    def _is_news(self, deleted: bool, key: str, gone: bool) -> bool:
        """False for the tombstone of a row that was filtered out, unless the client has seen the
        row."""
        if self._shown is None:
            return True
        if deleted:
            known = key in self._shown
            self._shown.discard(key)
            return known or gone
        self._shown.add(key)
        if len(self._shown) > SHOWN_MAX:
            self._shown = None
        return True

    def _key_of(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row of a tombstone: NULL in all columns but the key."""
        columns = zip(self.columns, row, strict=True)
        return tuple(
            value if column.role is Role.KEY or column.name in KEPT else None
            for column, value in columns
        )

    def _put(self, row: PushRow) -> None:
        while not self.closed:
            try:
                return self._rows.put(row, timeout=PUT_S)
            except queue.Full:
                continue
