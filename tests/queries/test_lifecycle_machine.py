"""The invariants of a query under random orders of events."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.queries.failures import FailureClass, QueryFailure
from ottla.queries.lifecycle import (
    BACK_OFF_MAX_MS,
    HEALTHY_AFTER_MS,
    RESTARTS_MAX,
    SUPERSEDED_MS,
    BatchSuccess,
    Event,
    Phase,
    QueryLifecycle,
    Recover,
    Recovery,
    RecoveryResult,
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
from ottla.queries.states import QueryStatus

CLASSES = st.sampled_from(list(FailureClass))


class LifecycleMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.query = QueryLifecycle()
        self.now_ms = 0
        self.run: int | None = None
        """The one that has been started and has not ended."""
        self.there = False
        """It can be stopped: its start has been answered."""
        self.stopping = False
        self.recovering = False
        self.retry_at_ms: int | None = None
        self.wanted = False
        self.last_run = 0
        self.fatal = False
        """It has failed for good, and nobody has begun it or removed the cause since."""
        self.waits: list[int] = []
        """Back-offs in a row."""
        self.changed = False
        """While its specification was asked."""
        self.started_ms = 0
        self.shown: QueryStatus | None = None

    def handle(self, event: Event) -> None:
        for instruction in self.query.handle(event, self.now_ms):
            match instruction:
                case StartRun(run):
                    assert self.run is None, "two runs at once"
                    assert self.wanted, "the query was not requested"
                    assert not self.fatal, "a fatal cause is not retried"
                    assert run > self.last_run
                    self.run = self.last_run = run
                    self.there = self.stopping = False
                    self.retry_at_ms = None
                    self.started_ms = self.now_ms
                case StopRun(run):
                    assert run == self.run
                    self.stopping = True
                case RetryAt(at_ms):
                    assert self.run is None
                    self.retry_at_ms = at_ms
                case Recover():
                    assert self.run is None
                    self.recovering = True
                case StatusReport():
                    self.report(instruction)

    def report(self, report: StatusReport) -> None:
        self.shown = report.state
        if report.state is QueryStatus.STOPPED:
            assert self.run is None, "STOPPED is reported after the end of the run"
            self.retry_at_ms = None
        if report.state is QueryStatus.RESTARTING:
            assert report.failure is not None
            if report.failure.kind is not FailureClass.SUPERSEDED:
                expected = min(1000 * 2 ** (report.attempt - 1), BACK_OFF_MAX_MS)
                assert report.retry_ms == expected, "back-off grows"
            else:
                assert report.retry_ms == SUPERSEDED_MS
            assert report.attempt == len(self.waits) + 1, "each restart in a row is counted"
            self.waits.append(report.retry_ms)

    def succeeded(self) -> None:
        self.waits.clear()

    # -- requests of users

    @rule()
    def begin(self) -> None:
        self.wanted = True
        if self.query.phase in (Phase.IDLE, Phase.FAILED):
            self.fatal = False
            self.succeeded()
        self.handle(StartQuery())

    @rule()
    def restart(self) -> None:
        self.wanted = True
        if self.query.phase in (Phase.IDLE, Phase.FAILED):
            self.fatal = False
            self.succeeded()
        self.changed = self.recovering
        self.handle(RestartQuery())

    @rule()
    def end(self) -> None:
        self.wanted = False
        self.handle(StopQuery())
        if self.run is None and not self.recovering:
            assert self.shown is QueryStatus.STOPPED

    # -- ends of runs

    @precondition(lambda self: self.run is not None and not self.there)
    @rule()
    def started(self) -> None:
        assert self.run is not None
        self.there, self.stopping = True, False
        was_wanted_otherwise = self.query.phase is Phase.STOPPING
        self.handle(RunStart(self.run))
        assert self.stopping == was_wanted_otherwise
        if not self.stopping:
            self.started_ms = self.now_ms

    @precondition(lambda self: self.run is not None and self.there)
    @rule()
    def batch(self) -> None:
        assert self.run is not None
        self.succeeded()
        self.handle(BatchSuccess(self.run))

    @precondition(lambda self: self.run is not None and self.there and self.stopping)
    @rule()
    def stopped(self) -> None:
        self.ended(None)

    @precondition(lambda self: self.run is not None and not self.stopping)
    @rule()
    def complete(self) -> None:
        self.wanted = False
        self.ended(None)

    @precondition(lambda self: self.run is not None)
    @rule(kind=CLASSES)
    def failed(self, kind: FailureClass) -> None:
        counts = self.query.phase is not Phase.STOPPING
        if counts and self.now_ms - self.started_ms >= HEALTHY_AFTER_MS:
            self.succeeded()
        spent = kind is FailureClass.UNKNOWN and len(self.waits) >= RESTARTS_MAX
        gives_up = counts and (kind is FailureClass.FATAL or spent)
        self.fatal = self.fatal or gives_up
        self.ended(QueryFailure(kind, "why"))
        assert self.recovering == gives_up

    def ended(self, failure: QueryFailure | None) -> None:
        run, self.run = self.run, None
        assert run is not None
        self.handle(RunEnd(run, failure))
        if not self.wanted and not self.recovering:
            assert self.run is None
            assert self.shown is QueryStatus.STOPPED, "a stop always ends the run"

    @precondition(lambda self: self.recovering)
    @rule(recovery=st.sampled_from(list(Recovery)))
    def recovered(self, recovery: Recovery) -> None:
        self.recovering = False
        if recovery is Recovery.AT_ONCE or self.changed:
            self.succeeded()
        if recovery is not Recovery.NONE or self.changed:
            self.fatal = False
        self.changed = False
        self.handle(RecoveryResult(recovery))
        if not self.wanted:
            assert self.shown is QueryStatus.STOPPED
            self.fatal = False

    # -- time, and late events

    @rule(wait_ms=st.sampled_from([1, 1000, 60_000, HEALTHY_AFTER_MS]))
    def time_passes(self, wait_ms: int) -> None:
        self.now_ms += wait_ms
        if self.retry_at_ms is not None and self.retry_at_ms <= self.now_ms:
            self.retry_at_ms = None
            self.handle(RetryDue())
            assert self.run is not None, "a due retry starts a run"

    @precondition(lambda self: self.last_run > 1)
    @rule(kind=CLASSES)
    def old_runs_are_over(self, kind: FailureClass) -> None:
        old = self.last_run - 1
        for event in (RunStart(old), BatchSuccess(old), RunEnd(old, QueryFailure(kind, "old"))):
            assert self.query.handle(event, self.now_ms) == []

    @invariant()
    def something_is_due_for_what_is_wanted(self) -> None:
        if self.wanted:
            waits = self.run is not None or self.retry_at_ms is not None or self.recovering
            assert waits or self.shown is QueryStatus.FAILED
        if self.shown is QueryStatus.FAILED:
            assert self.run is None


TestLifecycle = LifecycleMachine.TestCase
TestLifecycle.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
