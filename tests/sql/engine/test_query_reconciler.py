"""The query reconciler, with a starter that only records calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.sql.engine.query_reconciler import QueryReconciler
from ottla.sql.engine.state_changes import EngineState, PlanningContext, plan_change
from ottla.sql.plan.stages import QueryPlan
from ottla.sql.syntax import parse

SETTLE_S = 60.0
ORDERS = "CREATE STREAM o (v INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');"


@dataclass
class FakeStarter:
    """A starter; `failing` is what can't be started now."""

    calls: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    discarded: list[str] = field(default_factory=list)

    def start(self, query_id: str, plan: QueryPlan, *, paused: bool = False) -> None:
        if query_id in self.failing:
            raise OSError("the disk is full")
        self.calls.append(f"start {query_id}{' paused' if paused else ''}")

    def stop(self, query_id: str, *, keep: bool = False) -> None:
        self.calls.append(f"stop {query_id}{' and keep' if keep else ''}")

    def pause(self, query_id: str) -> None:
        if query_id in self.failing:
            raise OSError("the disk is full")
        self.calls.append(f"pause {query_id}")

    def resume(self, query_id: str) -> None:
        self.calls.append(f"resume {query_id}")

    def discard(self, query_id: str) -> None:
        self.discarded.append(query_id)

    def halt(self) -> None:
        self.calls.append("halt")


def after(*texts: str, state: EngineState | None = None, number: int = 1) -> EngineState:
    state = state or EngineState()
    for text in texts:
        (statement,) = parse(text)
        state = plan_change(statement, state, PlanningContext(number, {}, {"o": 1}.get)).state
    return state


@pytest.fixture
def starter() -> FakeStarter:
    return FakeStarter()


@pytest.fixture
def runs(starter: FakeStarter) -> Iterator[QueryReconciler]:
    made = QueryReconciler(lambda: starter)
    made.start()
    yield made
    made.close()


@pytest.fixture
def hasty_runs(starter: FakeStarter) -> Iterator[QueryReconciler]:
    made = QueryReconciler(lambda: starter, retry_s=0.02)
    made.start()
    yield made
    made.close()


ONE = after(ORDERS, "CREATE STREAM a AS SELECT * FROM o;")


def settled(runs: QueryReconciler) -> None:
    assert runs.settle(SETTLE_S)


def test_nothing_runs_without_the_lease(runs: QueryReconciler, starter: FakeStarter) -> None:
    runs.want(ONE)
    settled(runs)
    assert starter.calls == []
    runs.hold(True)
    settled(runs)
    assert starter.calls == ["start CSAS_A_1"]
    runs.hold(False)
    assert starter.calls[1:] == ["halt"], "all queries have stopped when this returns"
    runs.hold(True)
    settled(runs)
    assert starter.calls[2:] == ["start CSAS_A_1"]


def test_queries_follow_the_state(runs: QueryReconciler, starter: FakeStarter) -> None:
    runs.hold(True)
    runs.want(ONE)
    settled(runs)
    paused = after("PAUSE csas_a_1;", state=ONE)
    runs.want(paused)
    settled(runs)
    runs.want(after("RESUME ALL;", state=paused))
    settled(runs)
    replaced = after("CREATE OR REPLACE STREAM a AS SELECT * FROM o WHERE v > 1;", state=ONE)
    runs.want(replaced)
    settled(runs)
    runs.want(after("DROP STREAM a;", state=replaced))
    settled(runs)
    assert starter.calls == [
        "start CSAS_A_1",
        "pause CSAS_A_1",
        "resume CSAS_A_1",
        "stop CSAS_A_1 and keep",
        "start CSAS_A_1",
        "stop CSAS_A_1",
    ]


def test_a_paused_query_is_paused_from_its_start(
    runs: QueryReconciler, starter: FakeStarter
) -> None:
    runs.hold(True)
    runs.want(after("PAUSE ALL;", state=ONE))
    settled(runs)
    assert starter.calls == ["start CSAS_A_1 paused"]


def test_a_failed_start_is_reported_and_retried(
    hasty_runs: QueryReconciler, starter: FakeStarter
) -> None:
    runs = hasty_runs
    starter.failing = {"CSAS_A_1"}
    runs.hold(True)
    runs.want(after("CREATE STREAM b AS SELECT * FROM o;", state=ONE, number=2))
    settled(runs)
    assert runs.causes == {"CSAS_A_1": "the disk is full"}
    assert starter.calls == ["start CSAS_B_2"], "the others do not wait"
    starter.failing = set()
    for _ in range(100):
        runs.look_again()
        settled(runs)
        if not runs.causes:
            break
    assert starter.calls == ["start CSAS_B_2", "start CSAS_A_1"]


def test_everything_waits_for_spark(starter: FakeStarter) -> None:
    there: list[FakeStarter] = []
    runs = QueryReconciler(lambda: there[0] if there else None)
    runs.start()
    runs.hold(True)
    runs.want(ONE)
    settled(runs)
    assert starter.calls == []
    there.append(starter)
    runs.look_again()
    settled(runs)
    assert starter.calls == ["start CSAS_A_1"]
    runs.close()
    assert starter.calls[-1] == "halt"


def test_a_late_success_clears_the_failure(
    hasty_runs: QueryReconciler, starter: FakeStarter
) -> None:
    runs = hasty_runs
    runs.hold(True)
    runs.want(ONE)
    settled(runs)
    starter.failing = {"CSAS_A_1"}
    runs.want(after("PAUSE ALL;", state=ONE))
    settled(runs)
    assert runs.causes == {"CSAS_A_1": "the disk is full"}
    starter.failing = set()
    _until(lambda: "pause CSAS_A_1" in starter.calls and not runs.causes)


def test_creating_the_starter_is_retried(starter: FakeStarter) -> None:
    troubles = [OSError("no such folder"), OSError("no such folder")]

    def make_starter() -> FakeStarter:
        if troubles:
            raise troubles.pop()
        return starter

    runs = QueryReconciler(make_starter, retry_s=0.02)
    runs.start()
    runs.want(ONE)
    runs.hold(True)
    _until(lambda: starter.calls == ["start CSAS_A_1"])
    runs.close()


def test_errors_of_the_broker_are_logged_once_and_retried(
    starter: FakeStarter, caplog: pytest.LogCaptureFixture
) -> None:
    away = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody is there")
    refused = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not your group")
    troubles, asked = [away], 0

    def claim(wanted: bool) -> str:
        nonlocal asked
        asked += 1
        if troubles:
            raise troubles[0]
        return ""

    runs = QueryReconciler(lambda: starter, claim, retry_s=0.02)
    runs.start()
    try:
        runs.want(ONE)
        runs.hold(True)
        _until(lambda: asked > 2)
        assert (runs.causes, caplog.messages) == ({}, []), "the command runner logs that"
        troubles[0] = refused
        _until(lambda: runs.causes == {"CSAS_A_1": "not your group"})
        before = asked
        _until(lambda: asked > before + 2)
        assert caplog.messages == ["Failed to start or stop queries, retrying: not your group"], (
            "once"
        )
        troubles.clear()
        _until(lambda: starter.calls == ["start CSAS_A_1"] and not runs.causes)
    finally:
        runs.close()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_leftovers_of_a_terminated_query_are_discarded(
    runs: QueryReconciler, starter: FakeStarter
) -> None:
    ended = after("TERMINATE CSAS_A_1;", state=ONE)
    runs.want(ended)
    settled(runs)
    assert starter.discarded == [], "not ours without the lease"
    runs.hold(True)
    settled(runs)
    runs.look_again()
    settled(runs)
    assert (starter.discarded, starter.calls) == (["CSAS_A_1"], [])


def test_queries_do_not_run_with_foreign_state(starter: FakeStarter) -> None:
    trouble = ["the state is in there:/old"]
    asked: list[bool] = []

    def claim(wanted: bool) -> str:
        asked.append(wanted)
        return trouble[0]

    runs = QueryReconciler(lambda: starter, claim)
    runs.start()
    try:
        runs.want(ONE)
        runs.hold(True)
        settled(runs)
        assert (starter.calls, runs.causes) == ([], {"CSAS_A_1": trouble[0]})
        trouble[0] = ""
        runs.look_again()
        settled(runs)
        runs.look_again()
        settled(runs)
        assert (starter.calls, runs.causes) == (["start CSAS_A_1"], {})
        runs.want(after("TERMINATE CSAS_A_1;", state=ONE))
        settled(runs)
        assert asked == [True, True, False], "without queries the state has no owner"
    finally:
        runs.close()
