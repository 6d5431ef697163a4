"""One run of a Spark query, from its start to its end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.failures import FailedRun, cause_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.queries")

WATCH_S: Final = 0.2
IDLE_WAIT_S_MAX: Final = 3.0
IDLE_LOOK_S: Final = 0.01
THREAD_GONE: Final = "Spark's thread for this query has died without an error."
ENDED: Final = "Spark has ended this query without a stop request."


class QueryRun:
    """`finite`: the query reads what exists at its start, and is complete then."""

    polls_block = False
    """`poll` may block on more than Spark, so the supervisor runs it in another thread."""

    waits_for_data = False
    """The source waits for data inside the trigger. So the trigger is always active, and the query
    is between batches when no data is available."""

    idle_wait_s_max = IDLE_WAIT_S_MAX
    """How long `stop` waits for a gap between two batches."""

    def __init__(self, query: StreamingQuery, *, finite: bool = False) -> None:
        self.query = query
        self._finite = finite
        self._thread = thread_of(query)

    @property
    def active(self) -> bool:
        return bool(self.query.isActive)

    def poll(self) -> bool:
        """True if the query is complete. Raises FailedRun if it has ended otherwise."""
        lives = self._thread is None or self._thread.isAlive()
        if self.active:
            if lives:
                return False
            self.query.stop()
            raise FailedRun(THREAD_GONE)
        error = self.query.exception()
        if error is not None:
            raise FailedRun(str(error))
        if not self._finite:
            raise FailedRun(ENDED)
        return True

    def stop(self) -> None:
        """Stops between two batches if a gap comes soon, else in the middle of one. When it
        returns, Spark's query thread has ended, and with it all its reads and writes."""
        try:
            self._stop()
        except Exception as error:
            # Spark may have exited before its queries; then not even the query's name is known.
            log.warning("Failed to stop a query cleanly: %s", cause_of(error))

    def _stop(self) -> None:
        deadline = time.monotonic() + self.idle_wait_s_max
        while self.active and time.monotonic() < deadline:
            if self._is_between_batches(self.query.status):
                break
            time.sleep(IDLE_LOOK_S)
        # Also if it is inactive: Spark reports that before the query's thread has ended.
        self.query.stop()

    def _is_between_batches(self, status: Mapping[str, Any]) -> bool:
        if not status.get("isTriggerActive"):
            return True
        return self.waits_for_data and not status.get("isDataAvailable")

    def has_succeeded(self) -> bool:
        """True if this run has completed a batch. (An idle query reports progress without one.)"""
        try:
            progress = self.progress()
        except Exception:
            return False
        return "addBatch" in (progress.get("durationMs") or {})

    def progress(self) -> dict[str, Any]:
        return as_dict(self.query.lastProgress)

    def figures(self) -> dict[str, Any]:
        """Rows, lag and rate of the last batch, by QueryState's field names."""
        try:
            return figures_in(self.progress())
        except Exception:
            return {}


def completed(run: QueryRun, cancelled: Callable[[], bool]) -> bool:
    """Waits for a finite run. False if it was cancelled; it has stopped then."""
    try:
        while not cancelled():
            if run.poll():
                return True
            time.sleep(WATCH_S)
    except Exception:
        run.stop()
        raise
    run.stop()
    return False


def thread_of(query: StreamingQuery) -> Any:
    """The Java thread that runs the query; None where it is not accessible, as in Spark Connect.

    A StackOverflowError or OutOfMemoryError at the wrong moment kills the thread, and Spark keeps
    reporting the query as active.
    """
    inner = getattr(query, "_jsq", None)
    if inner is None:
        return None
    try:
        return inner.streamingQuery().queryExecutionThread()
    except Exception:
        return None


def figures_in(progress: dict[str, Any]) -> dict[str, Any]:
    if not progress:
        return {}
    sources = progress.get("sources") or []
    return {
        "rows": int(progress.get("numInputRows") or 0),
        "lag": sum(_lag(source) for source in sources),
        "rows_per_second": float(progress.get("processedRowsPerSecond") or 0.0),
        "batch_ms": int(progress.get("batchDuration") or 0),
        "batch": int(progress.get("batchId", -1)),
    }


def _lag(source: dict[str, Any]) -> int:
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return sum(max(offset - end.get(partition, 0), 0) for partition, offset in latest.items())


def _offsets(data: Any) -> dict[tuple[str, str], int]:
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            return {}
    if not isinstance(data, dict):
        return {}
    inner = data.get("offsets")
    if isinstance(inner, dict) and all(isinstance(found, dict) for found in inner.values()):
        data = inner  # a sink connector's offsets, stored beside its batch number
    return {
        (topic, partition): int(offset)
        for topic, partitions in data.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }


def as_dict(progress: Any) -> dict[str, Any]:
    if not progress:
        return {}
    text = getattr(progress, "json", None)  # Spark's progress is a dict of Spark's own objects
    found: dict[str, Any] = progress if text is None else json.loads(text)
    return found
