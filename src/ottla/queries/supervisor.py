"""Supervisor: one thread that keeps all queries of a process in the state that is wanted.

The thread takes events (what people want, what became of a run, what time it is), gives each to
the `lifecycle.Query` it is about, and carries out what that one says. Calls that wait for Spark or
for a broker (start, stop, recover) have a thread of their own for as long as they take: each query
has at most one of them at a time.
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
    BatchSucceeded,
    Begin,
    End,
    Ended,
    Event,
    Instruction,
    Phase,
    Query,
    Recover,
    Recovered,
    Recovery,
    Report,
    Restart,
    RetryAt,
    RetryDue,
    Start,
    Started,
    Stop,
)
from ottla.queries.query_run import WATCH_S, QueryRun
from ottla.queries.specification import QuerySpecification
from ottla.queries.states import QueryState, State

log = logging.getLogger("ottla.queries")

STOP_S_MAX: Final = 60.0
LEVELS: Final = {State.FAILED: logging.ERROR, State.RESTARTING: logging.WARNING}


class Posted(NamedTuple):
    """`done` is set as soon as the event has been handled and the query has no run."""

    query: SupervisedQuery
    event: Event
    done: threading.Event | None = None


class SupervisedQuery:
    """A query as its owner has it. What is wanted is said at once; `stop` waits for it."""

    def __init__(self, specification: QuerySpecification, post: Callable[[Posted], None]) -> None:
        self.specification = specification
        self.name = specification.name
        self.lifecycle = Query()
        """Only the supervisor's thread touches it, and what follows."""
        self.begun: QueryRun | None = None
        """A run whose `Started` is on its way."""
        self.run: QueryRun | None = None
        self.run_number = 0
        self.cancelled = threading.Event()
        self.retry_at_ms: int | None = None
        self.polling = False
        self.waiting: list[threading.Event] = []
        """Those who wait until it has stopped."""
        self._post = post
        self._report = Report(State.STARTING)
        self._last_failure = Report(State.STARTING)
        self._failed_ms = 0

    def begin(self) -> None:
        self._post(Posted(self, Begin()))

    def restart(self) -> None:
        """What it runs has changed: the next run is by what its specification says then."""
        self._post(Posted(self, Restart()))

    def stop_soon(self) -> None:
        self._post(Posted(self, End()))

    def stop(self, timeout_s: float = STOP_S_MAX) -> bool:
        """When it returns nothing of the query runs any more. False: not within that time."""
        done = threading.Event()
        self._post(Posted(self, End(), done))
        if not done.wait(timeout_s):
            log.warning("Query %s has not stopped within %.0f s", self.name, timeout_s)
        return done.is_set()

    def stop_or_raise(self) -> None:
        """TimeoutError: it still runs."""
        if not self.stop():
            raise TimeoutError(f"Query {self.name} has not stopped")

    @property
    def phase(self) -> State:
        """Asks nobody; `state` asks Spark, at a price: it tells of the last batch in JSON."""
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

    def shown(self, report: Report) -> None:
        """Called by the supervisor."""
        self._report = report
        if report.failure is not None:
            self._last_failure = report
            self._failed_ms = int(time.time() * 1000)
        log.log(LEVELS.get(report.state, logging.INFO), "%s", report.line(self.name))
        try:
            self.specification.reported(report)
        except Exception:
            log.exception("Query %s: its specification failed on a report", self.name)


class Supervisor:
    """Its thread lives as long as there is something to supervise."""

    def __init__(self, name: str = "queries") -> None:
        self.triggers = TriggerPolicy()
        self._inbox: queue.SimpleQueue[Posted | None] = queue.SimpleQueue()
        self._queries: set[SupervisedQuery] = set()
        """Those that run, or are to."""
        self._closing = False
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def supervise(self, specification: QuerySpecification) -> SupervisedQuery:
        return SupervisedQuery(specification, self._post)

    def close(self) -> None:
        """Stops what still runs; nothing begins any more."""
        self._post(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_S_MAX)

    def _post(self, posted: Posted | None) -> None:
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
                poll_s = time.monotonic() + WATCH_S
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
            except Exception:  # this thread is the only one: it must not end
                log.exception("Query %s: %s can't be handled", posted.query.name, posted.event)

    def _has_ended(self) -> bool:
        with self._lock:
            if self._queries or not self._inbox.empty():
                return False
            self._thread = None
            return True

    def _wait_s(self, poll_s: float) -> float:
        due = [each.retry_at_ms / 1000 for each in self._queries if each.retry_at_ms is not None]
        return max(min([poll_s, *due]) - time.monotonic(), 0.001)

    def _post_due(self) -> None:
        now_ms = _now_ms()
        for supervised in self._queries:
            if supervised.retry_at_ms is not None and supervised.retry_at_ms <= now_ms:
                supervised.retry_at_ms = None
                self._tell(supervised, RetryDue())

    def _tell(self, supervised: SupervisedQuery, event: Event) -> None:
        self._post(Posted(supervised, event))

    def _handle(self, posted: Posted) -> None:
        supervised, event, done = posted
        if self._closing and isinstance(event, Begin | Restart):
            return
        if isinstance(event, Started) and event.run == supervised.run_number:
            supervised.run, supervised.begun = supervised.begun, None
        if isinstance(event, Ended) and event.run == supervised.run_number:
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
            case Start(run):
                self._count(supervised, run)
                supervised.retry_at_ms = None
                supervised.cancelled = threading.Event()
                self._call("start", supervised, self._start, run, supervised.cancelled.is_set)
            case Stop(run):
                supervised.cancelled.set()
                if supervised.run is not None:
                    self._call("stop", supervised, self._stop, run, supervised.run)
            case RetryAt(at_ms):
                supervised.retry_at_ms = at_ms
            case Recover(failure):
                self._call("recover", supervised, self._recover, failure)
            case Report():
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

    # -- calls that may take their time

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
            self._tell(supervised, Ended(number, _failure(supervised, error)))
            return
        if run is None:
            self._tell(supervised, Ended(number))
            return
        supervised.begun = run
        self._tell(supervised, Started(number))

    def _stop(self, supervised: SupervisedQuery, number: int, run: QueryRun) -> None:
        # Whatever happens, the run has ended: a query that never hears of it does not start again.
        try:
            run.stop()
        finally:
            self._tell(supervised, Ended(number))

    def _poll(self, supervised: SupervisedQuery, number: int, run: QueryRun) -> None:
        try:
            if run.poll():
                self._tell(supervised, Ended(number))
            elif supervised.lifecycle.unproven and run.has_succeeded():
                self._tell(supervised, BatchSucceeded(number))
        except Exception as error:
            supervised.polling = True
            self._call("end", supervised, self._failed, number, run, error)
            return
        supervised.polling = False

    def _failed(
        self, supervised: SupervisedQuery, number: int, run: QueryRun, error: Exception
    ) -> None:
        """What can't be asked any more may still run: it is stopped before the next one starts."""
        try:
            if run.has_succeeded():
                self._tell(supervised, BatchSucceeded(number))
            run.stop()
        finally:
            self._tell(supervised, Ended(number, _failure(supervised, error)))

    def _recover(self, supervised: SupervisedQuery, failure: QueryFailure) -> None:
        try:
            recovery = supervised.specification.recover(failure)
        except Exception:
            log.exception("Query %s can't be recovered", supervised.name)
            recovery = Recovery.NONE
        self._tell(supervised, Recovered(recovery))


def _failure(supervised: SupervisedQuery, error: Exception) -> QueryFailure:
    try:
        return supervised.specification.failed(error)
    except Exception:
        log.exception("Query %s: its specification failed on a failure", supervised.name)
        return failure_of(error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
