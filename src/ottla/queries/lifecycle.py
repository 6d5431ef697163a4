"""Why a query was restarted: the life of one query, as events in and instructions out.

`Query.handle(event, now_ms)` decides; the supervisor carries out what it says and tells it what
came of it. There is no I/O here, no thread and no clock.

phase       no run   the run is ...                  leaves it on
IDLE        x        (none is wanted)                Begin
STARTING             being started                   Started, Ended, End, Restart
RUNNING              running                         Ended, End, Restart
STOPPING             being stopped                   Ended
BACKING_OFF x        (the next try is due later)     RetryDue, Begin, Restart, End
RECOVERING  x        (its specification is asked)    Recovered
FAILED      x        (given up)                      Begin, Restart, End

A run ends with a failure. What follows depends on the class of the failure:

FATAL       no restart: the next run would fail as well
RETRIABLE   restarts for ever: after 1 s, 2 s, 4 s ... 60 s
UNKNOWN     as RETRIABLE, but RESTARTS_MAX restarts in a row at most
SUPERSEDED  another process runs it: one try a minute

Before a query is given up, its specification may remove the cause (`Recover`): a shared query goes
on without the member that fails, a connector without the task. A batch that succeeds, and a run of
two minutes, end the back-off: the next failure is the first one again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla.queries.failures import FailureClass, QueryFailure
from ottla.queries.states import State

BACK_OFF_FIRST_MS: Final = 1_000
BACK_OFF_MAX_MS: Final = 60_000
SUPERSEDED_MS: Final = 60_000
"""A worker may have been superseded by one that was frozen and does not know yet that it is out."""
RESTARTS_MAX: Final = 3
"""In a row, for a cause that nobody knows."""
HEALTHY_AFTER_MS: Final = 120_000
"""A query without new records has no batches: a run that lasts so long is a success, too."""


class Phase(Enum):
    IDLE = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    BACKING_OFF = auto()
    RECOVERING = auto()
    FAILED = auto()


class Recovery(Enum):
    """What a specification says to a failure that would be the end of its query."""

    NONE = auto()
    AT_ONCE = auto()
    """The cause has been removed."""
    WITH_BACK_OFF = auto()
    """Somebody wants another try of the same."""


# -- events


@dataclass(frozen=True, slots=True)
class Begin:
    """Somebody wants it to run, now: also one that has failed, or that waits for its next try."""


@dataclass(frozen=True, slots=True)
class End:
    """Somebody wants it not to run."""


@dataclass(frozen=True, slots=True)
class Restart:
    """What it runs has changed: the run that there is ends, and the next one begins."""


@dataclass(frozen=True, slots=True)
class Started:
    run: int


@dataclass(frozen=True, slots=True)
class BatchSucceeded:
    run: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The run, or the attempt to start it. Without a failure: it was stopped, or is complete."""

    run: int
    failure: QueryFailure | None = None


@dataclass(frozen=True, slots=True)
class RetryDue:
    pass


@dataclass(frozen=True, slots=True)
class Recovered:
    recovery: Recovery


Event = Begin | End | Restart | Started | BatchSucceeded | Ended | RetryDue | Recovered


# -- instructions


@dataclass(frozen=True, slots=True)
class Start:
    run: int


@dataclass(frozen=True, slots=True)
class Stop:
    """See to it that this run ends; `Ended` is the answer."""

    run: int


@dataclass(frozen=True, slots=True)
class RetryAt:
    at_ms: int


@dataclass(frozen=True, slots=True)
class Recover:
    """Ask the specification; `Recovered` is the answer."""

    failure: QueryFailure


@dataclass(frozen=True, slots=True)
class Report:
    """For people and for logs. `retry_ms` is how long it waits for the restart `attempt`."""

    state: State
    failure: QueryFailure | None = None
    attempt: int = 0
    retry_ms: int = 0

    def line(self, name: str) -> str:
        if self.failure is None:
            return f"Query {name} is {self.state}"
        why = f"{self.failure.cause} [{self.failure.kind}]"
        if self.state is State.RESTARTING:
            seconds = self.retry_ms / 1000
            return f"Query {name} restarts in {seconds:g} s (attempt {self.attempt}): {why}"
        return f"Query {name} is {self.state} after {self.attempt} restarts: {why}"


Instruction = Start | Stop | RetryAt | Recover | Report


class RestartPolicy:
    """How long to wait after a failure, and when to give up."""

    def __init__(self) -> None:
        self.attempt = 0
        """Restarts since something went well."""

    def succeeded(self) -> None:
        self.attempt = 0

    def wait_ms(self, failure: QueryFailure) -> int | None:
        """Until the next try; None: there is none."""
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
        return int(min(BACK_OFF_FIRST_MS * 2**doublings, BACK_OFF_MAX_MS))


class Query:
    """One query. There is never more than one run of it: `Start` is given only when the run before
    has ended, or none was."""

    def __init__(self) -> None:
        self.phase = Phase.IDLE
        self.restarts = 0
        """In all its life, for people."""
        self._policy = RestartPolicy()
        self._wanted = False
        self._changed = False
        """While its specification was asked."""
        self._run = 0
        self._started_ms = 0
        self._failure: QueryFailure | None = None

    @property
    def unproven(self) -> bool:
        """It has failed, and no batch has succeeded since: whether one has is worth asking."""
        return self._policy.attempt > 0

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        match event:
            case Begin():
                return self._begin(now_ms)
            case End():
                return self._end()
            case Restart():
                return self._restart(now_ms)
            case RetryDue():
                return self._start(now_ms) if self.phase is Phase.BACKING_OFF else []
            case Recovered(recovery):
                return self._recovered(recovery, now_ms)
            case Started(run) | BatchSucceeded(run) | Ended(run) if run != self._run:
                return []  # of a run that is over
            case Started():
                return self._started(now_ms)
            case BatchSucceeded():
                self._policy.succeeded()
                return []
            case Ended(failure=failure):
                return self._ended(failure, now_ms)

    # -- what people want

    def _begin(self, now_ms: int) -> list[Instruction]:
        self._wanted = True
        if self.phase is Phase.BACKING_OFF:
            return self._start(now_ms)
        if self.phase in (Phase.IDLE, Phase.FAILED):
            self._policy.succeeded()  # of one that has failed: a person has looked at it
            return [Report(State.STARTING), *self._start(now_ms)]
        return []

    def _restart(self, now_ms: int) -> list[Instruction]:
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            self._wanted = True
            self.phase = Phase.STOPPING
            return [Stop(self._run)]
        self._changed = self.phase is Phase.RECOVERING
        return self._begin(now_ms)

    def _end(self) -> list[Instruction]:
        self._wanted = False
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            self.phase = Phase.STOPPING
            return [Stop(self._run)]
        if self.phase in (Phase.BACKING_OFF, Phase.FAILED, Phase.IDLE):
            return self._idle()
        return []  # STOPPING, RECOVERING: as soon as that is done

    # -- what becomes of a run

    def _start(self, now_ms: int) -> list[Instruction]:
        assert self._wanted
        self.phase = Phase.STARTING
        self._run += 1
        self._started_ms = now_ms
        return [Start(self._run)]

    def _started(self, now_ms: int) -> list[Instruction]:
        if self.phase is Phase.STOPPING:
            return [Stop(self._run)]  # there was nothing to be stopped when it was asked for
        if self.phase is not Phase.STARTING:
            return []
        self.phase = Phase.RUNNING
        self._started_ms = now_ms
        return [Report(State.RUNNING)]

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
        return [Report(State.FAILED, self._failure, self._policy.attempt)]

    def _back_off(self, wait_ms: int, now_ms: int) -> list[Instruction]:
        self.phase = Phase.BACKING_OFF
        self.restarts += 1
        report = Report(State.RESTARTING, self._failure, self._policy.attempt, wait_ms)
        return [report, RetryAt(now_ms + wait_ms)]

    def _idle(self) -> list[Instruction]:
        self.phase = Phase.IDLE
        return [Report(State.STOPPED)]
