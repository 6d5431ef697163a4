"""Supervisor: one thread that keeps all queries of a process in their desired state.

The thread takes events (requests, results of runs, due retries), passes each to the state machine
of its query, and carries out the instructions. Calls that wait for Spark or a broker (start, stop,
recover) run in a temporary thread; each query has at most one of them at a time.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.queries.failures import QueryFailure, failure_of
from ottla.queries.launcher import TriggerPolicy
from ottla.queries.lifecycle import (
    BACK_OFF_FIRST_MS,
    BatchSuccess,
    Event,
    Instruction,
    Phase,
    QueryLifecycle,
    Recover,
    Recovery,
    RecoveryResult,
    RestartPolicy,
    RestartQuery,
    RetryAt,
    RetryDue,
    RunEnd,
    RunStart,
    StartQuery,
    StartRun,
    StatusReport,
    StopQuery,
    StopRun,
)
from ottla.queries.query_run import WATCH_S, QueryRun
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryState, QueryStatus

log = logging.getLogger("ottla.queries")

STOP_S_MAX: Final = 60.0
LEVELS: Final = {QueryStatus.FAILED: logging.ERROR, QueryStatus.RESTARTING: logging.WARNING}


class SupervisorEvent(NamedTuple):
    """An event for a query; `done` is set once it is handled and the query has no run."""

    query: SupervisedQuery
    event: Event
    done: threading.Event | None = None


class SupervisedQuery:
    """A query's handle for its owner. Requests return at once; only `stop` waits."""

    def __init__(
        self,
        specification: QuerySpecification,
        post: Callable[[SupervisorEvent], None],
        policy: RestartPolicy,
    ) -> None:
        self.specification = specification
        self.name = specification.name
        self.lifecycle = QueryLifecycle(policy)
        """Only the supervisor's thread uses it and the attributes below."""
        self.starting_run: QueryRun | None = None
        """A run whose start event is still queued."""
        self.run: QueryRun | None = None
        self.run_number = 0
        self.cancelled = threading.Event()
        self.retry_at_ms: int | None = None
        self.polling = False
        self.waiting: list[threading.Event] = []
        """Set when the query has stopped."""
        self._post = post
        self._report = StatusReport(QueryStatus.STARTING)
        self._last_failure = StatusReport(QueryStatus.STARTING)
        self._failed_ms = 0

    def begin(self) -> None:
        self._post(SupervisorEvent(self, StartQuery()))

    def restart(self) -> None:
        """Starts a new run with the changed specification."""
        self._post(SupervisorEvent(self, RestartQuery()))

    def stop_soon(self) -> None:
        self._post(SupervisorEvent(self, StopQuery()))

    def stop(self, timeout_s: float = STOP_S_MAX) -> bool:
        """Waits until nothing of the query runs any more; False after the timeout."""
        done = threading.Event()
        self._post(SupervisorEvent(self, StopQuery(), done))
        if not done.wait(timeout_s):
            log.warning("Query %s did not stop within %.0f s", self.name, timeout_s)
        return done.is_set()

    def stop_or_raise(self) -> None:
        """Raises TimeoutError if the query still runs."""
        if not self.stop():
            raise TimeoutError(f"Query {self.name} has not stopped")

    @property
    def phase(self) -> QueryStatus:
        """The last reported status. Cheap, unlike `state`, which parses Spark's progress JSON."""
        return self._report.state

    def state(self) -> QueryState:
        run = self.run
        failure = self._last_failure.failure
        return QueryState(
            self._report.state,
            failure.cause if failure else "",
            self._failed_ms,
            self.lifecycle.restarts,
            **(run.figures() if run is not None else {}),
        )

    def shown(self, report: StatusReport) -> None:
        """Called by the supervisor."""
        self._report = report
        if report.failure is not None:
            self._last_failure = report
            self._failed_ms = int(time.time() * 1000)
        log.log(LEVELS.get(report.state, logging.INFO), "%s", report.line(self.name))
        try:
            self.specification.reported(report)
        except Exception:
            log.exception("Query %s: its specification failed to handle a report", self.name)


class Supervisor:
    """Its thread lives while there are queries to supervise."""

    def __init__(
        self,
        name: str = "queries",
        *,
        watch_s: float = WATCH_S,
        back_off_first_ms: int = BACK_OFF_FIRST_MS,
    ) -> None:
        self.triggers = TriggerPolicy()
        self._inbox: queue.SimpleQueue[SupervisorEvent | None] = queue.SimpleQueue()
        self._queries: set[SupervisedQuery] = set()
        """The queries that run or should run."""
        self._closing = False
        self._name = name
        self._watch_s = watch_s
        self._back_off_first_ms = back_off_first_ms
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def supervise(self, specification: QuerySpecification) -> SupervisedQuery:
        return SupervisedQuery(specification, self._post, RestartPolicy(self._back_off_first_ms))

    def close(self) -> None:
        """Stops all queries; none can start any more."""
        self._post(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S_MAX)

    def _post(self, posted: SupervisorEvent | None) -> None:
        with self._lock:
            self._inbox.put(posted)
            if self._thread is None:
                name = f"supervisor {self._name}"
                self._thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._thread.start()

    # -- the thread

    def _work(self) -> None:
        poll_s = time.monotonic()
        while not self._has_ended():
            self._post_due()
            if time.monotonic() >= poll_s:
                self._poll_all()
                poll_s = time.monotonic() + self._watch_s
            try:
                posted = self._inbox.get(timeout=self._wait_s(poll_s))
            except queue.Empty:
                continue
            if posted is None:
                self._closing = True
                for supervised in self._queries:
                    supervised.stop_soon()
                continue
            try:
                self._handle(posted)
            except Exception:  # all queries depend on this thread: it must not end
                log.exception("Query %s: failed to handle %s", posted.query.name, posted.event)

    def _has_ended(self) -> bool:
        with self._lock:
            if self._queries or not self._inbox.empty():
                return False
            self._thread = None
            return True

    def _wait_s(self, poll_s: float) -> float:
        due = [query.retry_at_ms / 1000 for query in self._queries if query.retry_at_ms is not None]
        return max(min([poll_s, *due]) - time.monotonic(), 0.001)

    def _post_due(self) -> None:
        now_ms = _now_ms()
        for supervised in self._queries:
            if supervised.retry_at_ms is not None and supervised.retry_at_ms <= now_ms:
                supervised.retry_at_ms = None
                self._send(supervised, RetryDue())

    def _send(self, supervised: SupervisedQuery, event: Event) -> None:
        self._post(SupervisorEvent(supervised, event))

    def _handle(self, posted: SupervisorEvent) -> None:
        supervised, event, done = posted
        if self._closing and isinstance(event, StartQuery | RestartQuery):
            return
        if isinstance(event, RunStart) and event.run == supervised.run_number:
            supervised.run, supervised.starting_run = supervised.starting_run, None
        if isinstance(event, RunEnd) and event.run == supervised.run_number:
            supervised.run = None
            supervised.polling = False
            self._count(supervised, 0)
        for instruction in supervised.lifecycle.handle(event, _now_ms()):
            self._carry_out(supervised, instruction)
        if done is not None:
            supervised.waiting.append(done)
        if supervised.lifecycle.phase in (Phase.IDLE, Phase.FAILED):
            self._queries.discard(supervised)
            while supervised.waiting:
                supervised.waiting.pop().set()
        else:
            self._queries.add(supervised)

    def _carry_out(self, supervised: SupervisedQuery, instruction: Instruction) -> None:
        match instruction:
            case StartRun(run):
                self._count(supervised, run)
                supervised.retry_at_ms = None
                supervised.cancelled = threading.Event()
                self._call("start", supervised, self._start, run, supervised.cancelled.is_set)
            case StopRun(run):
                supervised.cancelled.set()
                if supervised.run is not None:
                    self._call("stop", supervised, self._stop, run, supervised.run)
            case RetryAt(at_ms):
                supervised.retry_at_ms = at_ms
            case Recover(failure):
                self._call("recover", supervised, self._recover, failure)
            case StatusReport():
                supervised.retry_at_ms = None
                supervised.shown(instruction)

    def _count(self, supervised: SupervisedQuery, run: int) -> None:
        self.triggers.running += bool(run) - bool(supervised.run_number)
        supervised.run_number = run

    def _poll_all(self) -> None:
        for supervised in list(self._queries):
            run = supervised.run
            if run is None or supervised.polling or supervised.lifecycle.phase is not Phase.RUNNING:
                continue
            if run.polls_block:
                supervised.polling = True
                self._call("poll", supervised, self._poll, supervised.run_number, run)
            else:
                self._poll(supervised, supervised.run_number, run)

    # -- calls that may block

    def _call(
        self, what: str, supervised: SupervisedQuery, work: Callable[..., None], *arguments: Any
    ) -> None:
        threading.Thread(
            target=work,
            args=(supervised, *arguments),
            name=f"{what} {supervised.name}",
            daemon=True,
        ).start()

    def _start(
        self, supervised: SupervisedQuery, number: int, cancelled: Callable[[], bool]
    ) -> None:
        try:
            run = supervised.specification.start(cancelled)
        except Exception as error:
            self._send(supervised, RunEnd(number, _failure(supervised, error)))
            return
        if run is None:
            self._send(supervised, RunEnd(number))
            return
        supervised.starting_run = run
        self._send(supervised, RunStart(number))

    def _stop(self, supervised: SupervisedQuery, number: int, run: QueryRun) -> None:
        # Post the end even after an error: without it the query would stay in STOPPING for ever.
        try:
            run.stop()
        finally:
            self._send(supervised, RunEnd(number))

    def _poll(self, supervised: SupervisedQuery, number: int, run: QueryRun) -> None:
        try:
            if run.poll():
                self._send(supervised, RunEnd(number))
            elif supervised.lifecycle.unproven and run.has_succeeded():
                self._send(supervised, BatchSuccess(number))
        except Exception as error:
            supervised.polling = True
            self._call("end", supervised, self._failed, number, run, error)
            return
        supervised.polling = False

    def _failed(
        self, supervised: SupervisedQuery, number: int, run: QueryRun, error: Exception
    ) -> None:
        """A run that failed a poll may still be alive: stop it before the next one starts."""
        try:
            if run.has_succeeded():
                self._send(supervised, BatchSuccess(number))
            run.stop()
        finally:
            self._send(supervised, RunEnd(number, _failure(supervised, error)))

    def _recover(self, supervised: SupervisedQuery, failure: QueryFailure) -> None:
        try:
            recovery = supervised.specification.recover(failure)
        except Exception:
            log.exception("Query %s: recovery failed", supervised.name)
            recovery = Recovery.NONE
        self._send(supervised, RecoveryResult(recovery))


def _failure(supervised: SupervisedQuery, error: Exception) -> QueryFailure:
    try:
        return supervised.specification.failed(error)
    except Exception:
        log.exception("Query %s: its specification failed to classify an error", supervised.name)
        return failure_of(error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
