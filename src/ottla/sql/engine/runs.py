"""What should run, made to run: a thread that works towards the latest state.

Commands only change what is wanted. This thread starts and stops queries until what runs is what
is wanted, as soon as this server holds the lease and Spark is there.
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
from ottla.sql.engine.changes import State
from ottla.sql.plan.stages import Plan

RETRY_S: Final = 5.0
STOP_S_MAX: Final = 60.0
AWAY: Final = LOST_CONNECTION | MOVED

log = logging.getLogger("ottla.sql")


class Starter(Protocol):
    """What starts and stops: `ottla.sql.run.Queries`."""

    def start(self, query_id: str, plan: Plan, *, paused: bool = False) -> None: ...
    def stop(self, query_id: str, *, keep: bool = False) -> None: ...
    def pause(self, query_id: str) -> None: ...
    def resume(self, query_id: str) -> None: ...
    def discard(self, query_id: str) -> None: ...
    def halt(self) -> None: ...


@dataclass(slots=True)
class _Started:
    plan: Plan
    paused: bool


class Runs:
    """One thread starts and stops; everybody else says what is wanted, and may wait for it."""

    def __init__(
        self,
        starter: Callable[[], Starter | None],
        claim: Callable[[bool], str] = lambda _: "",
    ) -> None:
        """`starter` gives None while Spark is still starting; `look_again` when it is there.

        `claim` is told whether there are queries, and says why they must not run here, if so.
        """
        self._find_starter = starter
        self._claim = claim
        self._claimed: bool | None = None
        self._starter: Starter | None = None
        self._wanted = State()
        self._held = False
        self._version = 0
        self._done = 0
        self._changed = threading.Condition()
        self._started: dict[str, _Started] = {}
        self._discarded: set[str] = set()
        """Queries that have ended, and of which nothing is left."""
        self._closing = False
        self._refused = ""
        """By the broker, as it was told last."""
        self._thread = threading.Thread(target=self._run, name="ottla-sql-runs", daemon=True)
        self.causes: dict[str, str] = {}
        """Why a query could not be started; those that run tell of their own failures."""

    def start(self) -> None:
        self._thread.start()

    @property
    def held(self) -> bool:
        return self._held

    def want(self, state: State) -> None:
        with self._changed:
            self._wanted = state
            self._touch()

    def hold(self, held: bool) -> None:
        """The lease has come or gone. When it goes, this returns when nothing runs any more."""
        with self._changed:
            self._held = held
            self._touch()
        if not held:
            self.settle(STOP_S_MAX)

    def look_again(self) -> None:
        with self._changed:
            self._touch()

    def settle(self, timeout_s: float) -> bool:
        """Wait until what runs is what was wanted when this was called."""
        with self._changed:
            version = self._version
            return self._changed.wait_for(lambda: self._done >= version, timeout_s)

    def close(self) -> None:
        """Stop all queries, orderly: the next start goes on where they are."""
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
            fine = self._worked(state, held)
            retry_at = None if fine else time.monotonic() + RETRY_S
            with self._changed:
                self._done = version
                self._changed.notify_all()
                if closing:
                    return

    def _worked(self, state: State, held: bool) -> bool:
        try:
            fine = self._work(state, held)
            self._refused = ""
            return fine
        except KafkaError as error:
            self._failed(error, state)
            return False
        except Exception:  # this thread is the only one: it must not end
            log.exception("queries can't be started or stopped")
            return False

    def _failed(self, error: KafkaError, state: State) -> None:
        """Of a broker that is away, whoever reads commands has told; what it refuses is told here,
        and tried again."""
        if error.code in AWAY:
            log.debug("queries can't be started or stopped: %s", error)
            return
        if str(error) != self._refused:
            log.error("queries can't be started or stopped: %s", error)
        self._refused = str(error)
        waiting = set(state.catalog.queries) - set(self._started)
        self.causes = dict.fromkeys(waiting, self._refused)

    def _work(self, state: State, held: bool) -> bool:
        """True if all is as wanted; False if it is worth another try."""
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
        self.causes = {id_: each for id_, each in self.causes.items() if id_ in wanted}
        return fine

    def _may_run(self, wanted: list[str]) -> bool:
        """Once for each lease: our state is the queries' own. Else they are told why not."""
        trouble = self._claim(bool(wanted))
        if trouble:
            if any(self.causes.get(each) != trouble for each in wanted):
                log.error("no query is started: %s", trouble)
            self.causes = dict.fromkeys(wanted, trouble)
            return False
        self.causes = {}
        self._claimed = bool(wanted)
        return True

    def _tried(self, id_: str, what: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except Exception as error:  # Spark, the broker, the disk: told, and tried again
            self.causes[id_] = str(error) or type(error).__name__
            log.exception("can't %s query %s", what, id_)
            return False
        self.causes.pop(id_, None)
        return True

    def _halt(self) -> bool:
        """All at once, and all of it kept: whoever has the lease next goes on there."""
        assert self._starter is not None
        self._claimed = None
        if self._started:
            self._starter.halt()
            log.info("%d queries stopped", len(self._started))
            self._started.clear()
        self.causes = {}
        return True

    def _begin(self, id_: str, plan: Plan, paused: bool) -> None:
        assert self._starter is not None
        self._starter.start(id_, plan, paused=paused)
        self._started[id_] = _Started(plan, paused)
        log.info("query %s started", id_)

    def _stop(self, id_: str, state: State) -> None:
        assert self._starter is not None
        # One that is terminated leaves nothing behind; one that is only stopped here goes on later.
        self._starter.stop(id_, keep=id_ in state.catalog.queries)
        del self._started[id_]
        log.info("query %s stopped", id_)

    def _discard(self, id_: str) -> None:
        """Ended when nobody ran it: before Spark was there, or while another server had it."""
        assert self._starter is not None
        self._starter.discard(id_)
        self._discarded.add(id_)

    def _pause(self, id_: str, to: bool) -> None:
        assert self._starter is not None
        (self._starter.pause if to else self._starter.resume)(id_)
        self._started[id_].paused = to
