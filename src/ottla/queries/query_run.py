"""One run of a Spark query, from its start to its end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.failures import RunFailed, cause_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.queries")

WATCH_S: Final = 0.2
IDLE_WAIT_S_MAX: Final = 3.0
IDLE_LOOK_S: Final = 0.01
THREAD_GONE: Final = "Spark's thread for this query has died, and it said nothing."
ENDED: Final = "Spark has ended this query, and nobody had asked for it."


class QueryRun:
    """`finite`: it reads what is there now, and is complete then."""

    polls_block = False
    """`poll` does more than ask Spark: the supervisor must not wait for it."""

    waits_for_data = False
    """Its source waits inside of the trigger until there is something to read: the trigger is
    active all the time, and the time between two batches is when it has found no data."""

    def __init__(self, query: StreamingQuery, *, finite: bool = False) -> None:
        self.query = query
        self._finite = finite
        self._thread = thread_of(query)

    @property
    def active(self) -> bool:
        return bool(self.query.isActive)

    def poll(self) -> bool:
        """True: it is complete. RunFailed: it has ended otherwise."""
        lives = self._thread is None or self._thread.isAlive()
        if self.active:
            if lives:
                return False
            self.query.stop()
            raise RunFailed(THREAD_GONE)
        error = self.query.exception()
        if error is not None:
            raise RunFailed(str(error))
        if not self._finite:
            raise RunFailed(ENDED)
        return True

    def stop(self) -> None:
        """Between two batches if there is a gap soon, else in the middle of one. When it returns
        Spark's thread of the query has ended, and with it what reads and writes for it."""
        try:
            self._stop()
        except Exception as error:
            # Spark may be gone before its queries. Then it can't be asked for the query's name.
            log.warning("A query did not stop in order: %s", cause_of(error))

    def _stop(self) -> None:
        deadline = time.monotonic() + IDLE_WAIT_S_MAX
        while self.active and time.monotonic() < deadline:
            if self._is_between_batches(self.query.status):
                break
            time.sleep(IDLE_LOOK_S)
        # Also one that is not active any more: Spark says so before its thread has ended.
        self.query.stop()

    def _is_between_batches(self, status: Mapping[str, Any]) -> bool:
        if not status.get("isTriggerActive"):
            return True
        return self.waits_for_data and not status.get("isDataAvailable")

    def has_succeeded(self) -> bool:
        """Whether a batch of this run is done. An idle query has progress, too, without one."""
        try:
            progress = self.progress()
        except Exception:
            return False
        return "addBatch" in (progress.get("durationMs") or {})

    def progress(self) -> dict[str, Any]:
        return as_dict(self.query.lastProgress)

    def figures(self) -> dict[str, Any]:
        """Rows, lag and speed of the last batch, as QueryState names them."""
        try:
            return figures_in(self.progress())
        except Exception:
            return {}


def completed(run: QueryRun, cancelled: Callable[[], bool]) -> bool:
    """Waits for a finite run. False: it was cancelled, and has stopped."""
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
    """Java's thread that runs it; None where it is not ours to see, as with Spark Connect.

    An error in the wrong moment (of the stack, of memory) ends the thread, and Spark goes on saying
    that the query is active.
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
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


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
        data = inner  # a sink connector's: the number of its batch goes with them
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
    text = getattr(progress, "json", None)  # Spark's is a dictionary, too, of its own objects
    found: dict[str, Any] = progress if text is None else json.loads(text)
    return found
