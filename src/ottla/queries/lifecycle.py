"""Why a query was restarted: the life of one query, as events in and instructions out.

`QueryLifecycle.handle(event, now_ms)` decides; the supervisor carries out its instructions and
posts the results as new events. There is no I/O here, no thread and no clock.

phase       no run   the run is ...                  left on
IDLE        x        (not wanted)                    StartQuery
STARTING             starting                        RunStart, RunEnd, StopQuery, RestartQuery
RUNNING              running                         RunEnd, StopQuery, RestartQuery
STOPPING             stopping                        RunEnd
BACKING_OFF x        (the next run is due later)     RetryDue, and all three requests
RECOVERING  x        (its specification recovers)    RecoveryResult
FAILED      x        (given up)                      StartQuery, RestartQuery, StopQuery

If a run ends with a failure, the next step depends on the failure's class:

FATAL       no restart: the next run would fail in the same way
RETRIABLE   restarts for ever: after 1 s, 2 s, 4 s ... 60 s
UNKNOWN     like RETRIABLE, but at most RESTARTS_MAX restarts in a row
SUPERSEDED  another process runs the query: one attempt per minute

Before a query fails for good, its specification may remove the cause (`Recover`): a shared query
continues without the failing member, a connector without the failing task. A successful batch, or a
run of two minutes, resets the back-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla.queries.failures import FailureClass, QueryFailure
from ottla.queries.states import QueryStatus

BACK_OFF_FIRST_MS: Final = 1_000
BACK_OFF_MAX_MS: Final = 60_000
SUPERSEDED_MS: Final = 60_000
"""The other process may be a frozen one that will notice later that it has been replaced."""
RESTARTS_MAX: Final = 3
"""In a row, for an unknown cause."""
HEALTHY_AFTER_MS: Final = 120_000
"""A run of this length counts as a success, because a query without new records has no batches."""


class Phase(Enum):
    IDLE = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    BACKING_OFF = auto()
    RECOVERING = auto()
    FAILED = auto()


class Recovery(Enum):
    """A specification's answer to a failure that would end its query."""

    NONE = auto()
    AT_ONCE = auto()
    """The cause has been removed."""
    WITH_BACK_OFF = auto()
    """The application wants another attempt."""


# -- events


@dataclass(frozen=True, slots=True)
class StartQuery:
    """Run the query now, also one that has failed or that waits for its next attempt."""


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Stop the query."""


@dataclass(frozen=True, slots=True)
class RestartQuery:
    """The specification has changed: end the current run and start the next one."""


@dataclass(frozen=True, slots=True)
class RunStart:
    run: int


@dataclass(frozen=True, slots=True)
class BatchSuccess:
    run: int


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The run, or the attempt to start it, has ended. Without a failure: stopped or complete."""

    run: int
    failure: QueryFailure | None = None


@dataclass(frozen=True, slots=True)
class RetryDue:
    pass


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    recovery: Recovery


Event = (
    StartQuery
    | StopQuery
    | RestartQuery
    | RunStart
    | BatchSuccess
    | RunEnd
    | RetryDue
    | RecoveryResult
)


# -- instructions


@dataclass(frozen=True, slots=True)
class StartRun:
    run: int


@dataclass(frozen=True, slots=True)
class StopRun:
    """Stop this run; `RunEnd` is the answer."""

    run: int


@dataclass(frozen=True, slots=True)
class RetryAt:
    at_ms: int


@dataclass(frozen=True, slots=True)
class Recover:
    """Call the specification's `recover`; `RecoveryResult` is the answer."""

    failure: QueryFailure


@dataclass(frozen=True, slots=True)
class StatusReport:
    """A state change for users and logs. `retry_ms` is the delay before restart `attempt`."""

    state: QueryStatus
    failure: QueryFailure | None = None
    attempt: int = 0
    retry_ms: int = 0

    def line(self, name: str) -> str:
        if self.failure is None:
            return f"Query {name} is {self.state}"
        why = f"{self.failure.cause} [{self.failure.kind}]"
        if self.state is QueryStatus.RESTARTING:
            seconds = self.retry_ms / 1000
            return f"Query {name} restarts in {seconds:g} s (attempt {self.attempt}): {why}"
        return f"Query {name} is {self.state} after {self.attempt} restarts: {why}"


Instruction = StartRun | StopRun | RetryAt | Recover | StatusReport


class RestartPolicy:
    """The delay after a failure, and when to give up."""

    def __init__(self, back_off_first_ms: int = BACK_OFF_FIRST_MS) -> None:
        self._back_off_first_ms = back_off_first_ms
        self.attempt = 0
        """Restarts since the last success."""

    def succeeded(self) -> None:
        self.attempt = 0

    def wait_ms(self, failure: QueryFailure) -> int | None:
        """The delay until the next attempt; None: give up."""
        if failure.kind is FailureClass.FATAL:
            return None
        if failure.kind is FailureClass.UNKNOWN and self.attempt >= RESTARTS_MAX:
            return None
        if failure.kind is FailureClass.SUPERSEDED:
            self.attempt += 1
            return SUPERSEDED_MS
        return self.back_off_ms()

    def back_off_ms(self) -> int:
        self.attempt += 1
        doublings = min(self.attempt - 1, 16)
        return int(min(self._back_off_first_ms * 2**doublings, BACK_OFF_MAX_MS))


class QueryLifecycle:
    """The state machine of one query. It never has two runs: it returns `StartRun` only when there
    is no run, because two runs would write to the same checkpoint."""

    def __init__(self, policy: RestartPolicy | None = None) -> None:
        self.phase = Phase.IDLE
        self.restarts = 0
        """Since its creation, for users."""
        self._policy = policy or RestartPolicy()
        self._wanted = False
        self._changed = False
        """The specification changed during a recovery."""
        self._run = 0
        self._started_ms = 0
        self._failure: QueryFailure | None = None

    @property
    def unproven(self) -> bool:
        """It has failed and no batch has succeeded since, so the supervisor polls for one."""
        return self._policy.attempt > 0

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        match event:
            case StartQuery():
                return self._begin(now_ms)
            case StopQuery():
                return self._end()
            case RestartQuery():
                return self._restart(now_ms)
            case RetryDue():
                return self._start(now_ms) if self.phase is Phase.BACKING_OFF else []
            case RecoveryResult(recovery):
                return self._recovered(recovery, now_ms)
            case RunStart(run) | BatchSuccess(run) | RunEnd(run) if run != self._run:
                return []  # of an earlier run
            case RunStart():
                return self._started(now_ms)
            case BatchSuccess():
                self._policy.succeeded()
                return []
            case RunEnd(failure=failure):
                return self._ended(failure, now_ms)

    # -- requests

    def _begin(self, now_ms: int) -> list[Instruction]:
        self._wanted = True
        if self.phase is Phase.BACKING_OFF:
            return self._start(now_ms)
        if self.phase in (Phase.IDLE, Phase.FAILED):
            self._policy.succeeded()  # a user's request resets the back-off of a failed query
            return [StatusReport(QueryStatus.STARTING), *self._start(now_ms)]
        return []

    def _restart(self, now_ms: int) -> list[Instruction]:
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            self._wanted = True
            self.phase = Phase.STOPPING
            return [StopRun(self._run)]
        self._changed = self.phase is Phase.RECOVERING
        return self._begin(now_ms)

    def _end(self) -> list[Instruction]:
        self._wanted = False
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            self.phase = Phase.STOPPING
            return [StopRun(self._run)]
        if self.phase in (Phase.BACKING_OFF, Phase.FAILED, Phase.IDLE):
            return self._idle()
        return []  # STOPPING, RECOVERING: their result ends in IDLE

    # -- the course of a run

    def _start(self, now_ms: int) -> list[Instruction]:
        assert self._wanted
        assert self.phase not in (Phase.STARTING, Phase.RUNNING), "two runs of one query"
        self.phase = Phase.STARTING
        self._run += 1
        self._started_ms = now_ms
        return [StartRun(self._run)]

    def _started(self, now_ms: int) -> list[Instruction]:
        if self.phase is Phase.STOPPING:
            return [StopRun(self._run)]  # the stop request came before there was a run to stop
        if self.phase is not Phase.STARTING:
            return []
        self.phase = Phase.RUNNING
        self._started_ms = now_ms
        return [StatusReport(QueryStatus.RUNNING)]

    def _ended(self, failure: QueryFailure | None, now_ms: int) -> list[Instruction]:
        if self.phase is Phase.STOPPING:
            return self._start(now_ms) if self._wanted else self._idle()
        if self.phase not in (Phase.STARTING, Phase.RUNNING):
            return []
        if failure is None:
            self._wanted = False
            return self._idle()
        if now_ms - self._started_ms >= HEALTHY_AFTER_MS:
            self._policy.succeeded()
        self._failure = failure
        wait_ms = self._policy.wait_ms(failure)
        if wait_ms is not None:
            return self._back_off(wait_ms, now_ms)
        self.phase = Phase.RECOVERING
        return [Recover(failure)]

    def _recovered(self, recovery: Recovery, now_ms: int) -> list[Instruction]:
        if self.phase is not Phase.RECOVERING:
            return []
        changed, self._changed = self._changed, False
        if not self._wanted:
            return self._idle()
        if recovery is Recovery.AT_ONCE or changed:
            self._policy.succeeded()
            return self._start(now_ms)
        if recovery is Recovery.WITH_BACK_OFF:
            return self._back_off(self._policy.back_off_ms(), now_ms)
        self.phase = Phase.FAILED
        return [StatusReport(QueryStatus.FAILED, self._failure, self._policy.attempt)]

    def _back_off(self, wait_ms: int, now_ms: int) -> list[Instruction]:
        self.phase = Phase.BACKING_OFF
        self.restarts += 1
        report = StatusReport(QueryStatus.RESTARTING, self._failure, self._policy.attempt, wait_ms)
        return [report, RetryAt(now_ms + wait_ms)]

    def _idle(self) -> list[Instruction]:
        self.phase = Phase.IDLE
        return [StatusReport(QueryStatus.STOPPED)]
