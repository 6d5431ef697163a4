"""One Spark query that is kept running: started, watched, and started again when it fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.running.begin import Pace
from ottla.spark.running.causes import cause_of, text_of
from ottla.spark.running.states import QueryState, State, Tries

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("ottla.spark")

WATCH_S: Final = 0.2
STOP_S_MAX: Final = 30.0
IDLE_WAIT_S_MAX: Final = 3.0


THREAD_GONE: Final = "Spark's thread for this query has died, and it said nothing."
ENDED: Final = "Spark has ended this query, and nobody had asked for it."


class Failed(Exception):
    """A Spark query ended with an error, which is the message."""


class Spell:
    """One run of a Spark query, from its start to its end."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self.started_s = time.monotonic()
        self._thread = thread_of(query)

    @property
    def active(self) -> bool:
        return bool(self.query.isActive)

    @property
    def ran_s(self) -> float:
        return time.monotonic() - self.started_s

    def wait(self, stopping: Callable[[], bool]) -> bool:
        """Until the query has ended by itself (True) or `stopping` says so (False). Failed if it
        ended with an error."""
        while not stopping():
            lives = self._thread is None or self._thread.isAlive()
            if not self.active:
                error = self.query.exception()
                if error is not None:
                    raise Failed(str(error))
                return True
            if not lives:
                self.query.stop()
                raise Failed(THREAD_GONE)
            time.sleep(WATCH_S)
        return False

    def stop(self) -> None:
        """Between two batches if there is a gap soon, else in the middle of one."""
        deadline = time.monotonic() + IDLE_WAIT_S_MAX
        while self.active and time.monotonic() < deadline:
            if not self.query.status.get("isTriggerActive"):
                break
            time.sleep(0.01)
        if self.active:
            self.query.stop()

    def progress(self) -> dict[str, Any]:
        found = self.query.lastProgress
        return _as_dict(found) if found else {}


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


class Kept:
    """Keeps what `begin` starts running, on a thread of its own, until `stop`."""

    def __init__(self, name: str, begin: Callable[[], StreamingQuery], pace: Pace) -> None:
        self.name = name
        self._pace = pace
        self._begin = begin
        self._stopping = threading.Event()
        self._spell: Spell | None = None
        self._tries = Tries()
        self._state = State.STARTING
        self._cause = ""
        self._failed_ms = 0
        self._thread = threading.Thread(target=self._keep, name=f"spark {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop_soon(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            log.warning("query %s has not stopped within %.0f s", self.name, STOP_S_MAX)

    @property
    def phase(self) -> State:
        """Asks nobody; `state` asks Spark, at a price: it tells of the last batch in JSON."""
        return self._state

    def state(self) -> QueryState:
        seen = progress_of(self._spell)
        return QueryState(
            self._state,
            self._cause,
            self._failed_ms,
            self._tries.restarts,
            **seen,
        )

    def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                with self._pace.counted():
                    self._spell = Spell(self._begin())
                    self._state = State.RUNNING
                    if self._spell.wait(self._stopping.is_set):
                        raise Failed(ENDED)
            except Exception as error:
                if not self._again(error, time.monotonic() - began):
                    return
        if self._spell is not None:
            stop_quietly(self._spell, self.name)
        self._state = State.STOPPED

    def _again(self, error: Exception, ran_s: float) -> bool:
        """Waits before the next try; False if there is none."""
        if self._stopping.is_set():
            return True
        self._cause = cause_of(error)
        self._failed_ms = int(time.time() * 1000)
        wait_s = self._tries.failed(text_of(error), ran_s)
        if wait_s is None:
            self._state = State.FAILED
            log.error("query %s FAILED: %s", self.name, self._cause)
            return False
        self._state = State.RESTARTING
        log.warning("query %s failed, again in %.0f s: %s", self.name, wait_s, self._cause)
        self._stopping.wait(wait_s)
        return True


def stop_quietly(spell: Spell, name: str) -> None:
    try:
        spell.stop()
    except Exception as error:
        # Spark may be gone before its queries when a process ends.
        log.warning("query %s did not stop in order: %s", name, cause_of(error))


def progress_of(spell: Spell | None) -> dict[str, Any]:
    """Rows, lag and speed of the last batch, as QueryState names them."""
    try:
        progress = spell.progress() if spell else {}
    except Exception:
        return {}
    if not progress:
        return {}
    sources = progress.get("sources") or []
    return {
        "rows": int(progress.get("numInputRows") or 0),
        "lag": sum(_lag(each) for each in sources),
        "rows_per_second": float(progress.get("processedRowsPerSecond") or 0.0),
        "batch_ms": int(progress.get("batchDuration") or 0),
        "batch": int(progress.get("batchId", -1)),
    }


def _lag(source: dict[str, Any]) -> int:
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    return sum(max(offset - end.get(place, 0), 0) for place, offset in latest.items())


def _offsets(data: Any) -> dict[tuple[str, str], int]:
    import json

    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError:
            return {}
    if not isinstance(data, dict):
        return {}
    inner = data.get("offsets")
    if isinstance(inner, dict) and all(isinstance(each, dict) for each in inner.values()):
        data = inner  # a sink connector's: the number of its batch goes with them
    return {
        (topic, partition): int(offset)
        for topic, partitions in data.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }


def _as_dict(progress: Any) -> dict[str, Any]:
    if isinstance(progress, dict):
        return progress
    import json

    found: dict[str, Any] = json.loads(progress.json)
    return found
