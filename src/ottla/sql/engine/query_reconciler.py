"""The query reconciler: a thread that starts and stops queries to match the latest state.

Commands only change the state. While this server holds the lease and Spark is running, this thread
starts, stops and pauses queries until those that run are those of the state.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from ottla.client.protocol.retries import LOST_CONNECTION, MOVED
from ottla.errors import KafkaError
from ottla.sql.engine.state_changes import EngineState
from ottla.sql.plan.stages import QueryPlan

RETRY_S: Final = 5.0
STOP_S_MAX: Final = 60.0
AWAY: Final = LOST_CONNECTION | MOVED

log = logging.getLogger("ottla.sql")


class QueryStarter(Protocol):
    """Starts and stops queries: `ottla.sql.run.queries.Queries`."""

    def start(self, query_id: str, plan: QueryPlan, *, paused: bool = False) -> None: ...
    def stop(self, query_id: str, *, keep: bool = False) -> None: ...
    def pause(self, query_id: str) -> None: ...
    def resume(self, query_id: str) -> None: ...
    def discard(self, query_id: str) -> None: ...
    def halt(self) -> None: ...


@dataclass(slots=True)
class _StartedQuery:
    plan: QueryPlan
    paused: bool


class QueryReconciler:
    """Only its own thread starts and stops queries; other threads set the state, and may wait."""

    def __init__(
        self,
        starter: Callable[[], QueryStarter | None],
        claim: Callable[[bool], str] = lambda _: "",
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        """`starter` returns None while Spark is starting; `look_again` is called afterwards.

        `claim` gets whether there are queries, and returns why they must not run here, if so.
        """
        self._find_starter = starter
        self._claim = claim
        self._retry_s = retry_s
        self._claimed: bool | None = None
        self._starter: QueryStarter | None = None
        self._wanted = EngineState()
        self._held = False
        self._version = 0
        self._done = 0
        self._changed = threading.Condition()
        self._started: dict[str, _StartedQuery] = {}
        self._discarded: set[str] = set()
        """Ended queries whose state has been deleted."""
        self._closing = False
        self._refused = ""
        """The last error of the broker that was logged."""
        self._thread = threading.Thread(target=self._run, name="ottla-sql-runs", daemon=True)
        self.causes: dict[str, str] = {}
        """Why a query could not be started. Running queries report their failures themselves."""

    def start(self) -> None:
        self._thread.start()

    @property
    def held(self) -> bool:
        return self._held

    def want(self, state: EngineState) -> None:
        with self._changed:
            self._wanted = state
            self._touch()

    def hold(self, held: bool) -> None:
        """Set whether this server holds the lease. Once it does not, wait until no query runs."""
        with self._changed:
            self._held = held
            self._touch()
        if not held:
            self.settle(STOP_S_MAX)

    def look_again(self) -> None:
        with self._changed:
            self._touch()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the state at the time of the call has been reached."""
        with self._changed:
            version = self._version
            return self._changed.wait_for(lambda: self._done >= version, timeout_s)

    def close(self) -> None:
        """Stop all queries cleanly; the next start continues from their checkpoints."""
        with self._changed:
            self._closing = True
            self._touch()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)

    def _touch(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _run(self) -> None:
        retry_at: float | None = None
        while True:
            with self._changed:
                timeout = None if retry_at is None else max(0.0, retry_at - time.monotonic())
                self._changed.wait_for(lambda: self._version > self._done, timeout)
                version, closing = self._version, self._closing
                state, held = self._wanted, self._held and not self._closing
            # Without the lock: starting a query takes seconds, and callers must not wait for it.
            fine = self._worked(state, held)
            retry_at = None if fine else time.monotonic() + self._retry_s
            with self._changed:
                self._done = version
                self._changed.notify_all()
                if closing:
                    return

    def _worked(self, state: EngineState, held: bool) -> bool:
        try:
            fine = self._work(state, held)
            self._refused = ""
            return fine
        except KafkaError as error:
            self._failed(error, state)
            return False
        except Exception:  # without this thread queries would never start or stop again
            log.exception("Failed to start or stop queries, retrying")
            return False

    def _failed(self, error: KafkaError, state: EngineState) -> None:
        """The command runner logs that the broker is away; errors of the broker are logged here."""
        if error.code in AWAY:
            log.debug("Failed to start or stop queries, retrying: %s", error)
            return
        if str(error) != self._refused:
            log.error("Failed to start or stop queries, retrying: %s", error)
        self._refused = str(error)
        waiting = set(state.catalog.queries) - set(self._started)
        self.causes = dict.fromkeys(waiting, self._refused)

    def _work(self, state: EngineState, held: bool) -> bool:
        """One attempt to reach the state; False if it must be repeated."""
        if self._starter is None:
            self._starter = self._find_starter()
            if self._starter is None:
                return True
        if not held:
            return self._halt()
        wanted = state.catalog.queries
        if self._claimed is not bool(wanted) and not self._may_run(list(wanted)):
            return False
        fine = True
        # Stop first: a query with a new plan is stopped here, and started below.
        for id_ in list(self._started):
            plan = state.plans.get(id_)
            if id_ not in wanted or self._started[id_].plan != plan:
                fine &= self._tried(id_, "stop", partial(self._stop, id_, state))
        for id_ in state.ended:
            if id_ not in wanted and id_ not in self._started and id_ not in self._discarded:
                fine &= self._tried(id_, "discard", partial(self._discard, id_))
        for id_, query in wanted.items():
            plan = state.plans.get(id_)
            if plan is None:
                continue
            if id_ not in self._started:
                fine &= self._tried(id_, "start", partial(self._begin, id_, plan, query.paused))
            if id_ in self._started and self._started[id_].paused != query.paused:
                fine &= self._tried(id_, "pause", partial(self._pause, id_, query.paused))
        self.causes = {id_: cause for id_, cause in self.causes.items() if id_ in wanted}
        return fine

    def _may_run(self, wanted: list[str]) -> bool:
        """Claim the state directory, once for each lease. If that is refused, no query may
        start."""
        trouble = self._claim(bool(wanted))
        if trouble:
            if any(self.causes.get(query_id) != trouble for query_id in wanted):
                log.error("Not starting any query: %s", trouble)
            self.causes = dict.fromkeys(wanted, trouble)
            return False
        self.causes = {}
        self._claimed = bool(wanted)
        return True

    def _tried(self, id_: str, what: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # Spark, the broker or the disk: log and retry
            self.causes[id_] = str(error) or type(error).__name__
            log.exception("Failed to %s query %s, retrying", what, id_)
            return False
        self.causes.pop(id_, None)
        return True

    def _halt(self) -> bool:
        """Stop all queries at once and keep their state: the next holder of the lease continues."""
        assert self._starter is not None
        self._claimed = None
        if self._started:
            self._starter.halt()
            log.info("Stopped %d queries", len(self._started))
            self._started.clear()
        self.causes = {}
        return True

    def _begin(self, id_: str, plan: QueryPlan, paused: bool) -> None:
        assert self._starter is not None
        self._starter.start(id_, plan, paused=paused)
        self._started[id_] = _StartedQuery(plan, paused)
        log.info("Started query %s", id_)

    def _stop(self, id_: str, state: EngineState) -> None:
        assert self._starter is not None
        # A terminated query leaves no state behind; one with a new plan is started again with its
        # own.
        self._starter.stop(id_, keep=id_ in state.catalog.queries)
        del self._started[id_]
        log.info("Stopped query %s", id_)

    def _discard(self, id_: str) -> None:
        """Delete the state of a query that ended while it did not run here."""
        assert self._starter is not None
        self._starter.discard(id_)
        self._discarded.add(id_)

    def _pause(self, id_: str, to: bool) -> None:
        assert self._starter is not None
        (self._starter.pause if to else self._starter.resume)(id_)
        self._started[id_].paused = to
