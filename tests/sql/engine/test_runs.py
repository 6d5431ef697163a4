"""What should run is made to run: with a starter that only writes down what it was told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.sql.engine import runs as module
from ottla.sql.engine.changes import Around, State, change
from ottla.sql.engine.runs import Runs
from ottla.sql.plan.stages import Plan
from ottla.sql.syntax import parse

SETTLE_S = 60.0
ORDERS = "CREATE STREAM o (v INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');"


@dataclass
class Told:
    """A starter; `failing` is what can't be started now."""

    calls: list[str] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    discarded: list[str] = field(default_factory=list)

    def start(self, query_id: str, plan: Plan, *, paused: bool = False) -> None:
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


def after(*texts: str, state: State | None = None, number: int = 1) -> State:
    state = state or State()
    for text in texts:
        (statement,) = parse(text)
        state = change(statement, state, Around(number, {}, {"o": 1}.get)).state
    return state


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runs(told: Told) -> Iterator[Runs]:
    made = Runs(lambda: told)
    made.start()
    yield made
    made.close()


ONE = after(ORDERS, "CREATE STREAM a AS SELECT * FROM o;")


def settled(runs: Runs) -> None:
    assert runs.settle(SETTLE_S)


def test_nothing_runs_without_the_lease(runs: Runs, told: Told) -> None:
    runs.want(ONE)
    settled(runs)
    assert told.calls == []
    runs.hold(True)
    settled(runs)
    assert told.calls == ["start CSAS_A_1"]
    runs.hold(False)
    assert told.calls[1:] == ["halt"], "and all has stopped when this returns"
    runs.hold(True)
    settled(runs)
    assert told.calls[2:] == ["start CSAS_A_1"]


def test_queries_follow_the_state(runs: Runs, told: Told) -> None:
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
    assert told.calls == [
        "start CSAS_A_1",
        "pause CSAS_A_1",
        "resume CSAS_A_1",
        "stop CSAS_A_1 and keep",
        "start CSAS_A_1",
        "stop CSAS_A_1",
    ]


def test_a_paused_query_is_paused_from_its_start(runs: Runs, told: Told) -> None:
    runs.hold(True)
    runs.want(after("PAUSE ALL;", state=ONE))
    settled(runs)
    assert told.calls == ["start CSAS_A_1 paused"]


def test_what_can_not_be_started_is_told_and_tried_again(
    runs: Runs, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    told.failing = {"CSAS_A_1"}
    runs.hold(True)
    runs.want(after("CREATE STREAM b AS SELECT * FROM o;", state=ONE, number=2))
    settled(runs)
    assert runs.causes == {"CSAS_A_1": "the disk is full"}
    assert told.calls == ["start CSAS_B_2"], "and the others are not kept waiting"
    told.failing = set()
    for _ in range(100):
        runs.look_again()
        settled(runs)
        if not runs.causes:
            break
    assert told.calls == ["start CSAS_B_2", "start CSAS_A_1"]


def test_everything_waits_for_spark(told: Told) -> None:
    there: list[Told] = []
    runs = Runs(lambda: there[0] if there else None)
    runs.start()
    runs.hold(True)
    runs.want(ONE)
    settled(runs)
    assert told.calls == []
    there.append(told)
    runs.look_again()
    settled(runs)
    assert told.calls == ["start CSAS_A_1"]
    runs.close()
    assert told.calls[-1] == "halt"


def test_what_has_worked_in_the_end_is_no_failure_any_more(
    runs: Runs, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    runs.hold(True)
    runs.want(ONE)
    settled(runs)
    told.failing = {"CSAS_A_1"}
    runs.want(after("PAUSE ALL;", state=ONE))
    settled(runs)
    assert runs.causes == {"CSAS_A_1": "the disk is full"}
    told.failing = set()
    _until(lambda: "pause CSAS_A_1" in told.calls and not runs.causes)


def test_a_starter_that_can_not_be_made_is_asked_for_again(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    troubles = [OSError("no such folder"), OSError("no such folder")]

    def starter() -> Told:
        if troubles:
            raise troubles.pop()
        return told

    runs = Runs(starter)
    runs.start()
    runs.want(ONE)
    runs.hold(True)
    _until(lambda: told.calls == ["start CSAS_A_1"])
    runs.close()


def test_what_a_broker_refuses_is_told_and_tried_again(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.02)
    away = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody is there")
    refused = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not your group")
    troubles, asked = [away], 0

    def claim(wanted: bool) -> str:
        nonlocal asked
        asked += 1
        if troubles:
            raise troubles[0]
        return ""

    runs = Runs(lambda: told, claim)
    runs.start()
    try:
        runs.want(ONE)
        runs.hold(True)
        _until(lambda: asked > 2)
        assert (runs.causes, caplog.messages) == ({}, []), "whoever reads commands tells of that"
        troubles[0] = refused
        _until(lambda: runs.causes == {"CSAS_A_1": "not your group"})
        before = asked
        _until(lambda: asked > before + 2)
        assert caplog.messages == ["queries can't be started or stopped: not your group"], "once"
        troubles.clear()
        _until(lambda: told.calls == ["start CSAS_A_1"] and not runs.causes)
    finally:
        runs.close()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_is_left_of_a_query_that_was_ended_before_is_discarded(runs: Runs, told: Told) -> None:
    ended = after("TERMINATE CSAS_A_1;", state=ONE)
    runs.want(ended)
    settled(runs)
    assert told.discarded == [], "not ours without the lease"
    runs.hold(True)
    settled(runs)
    runs.look_again()
    settled(runs)
    assert (told.discarded, told.calls) == (["CSAS_A_1"], [])


def test_nothing_runs_with_a_state_that_is_not_the_queries_own(told: Told) -> None:
    trouble = ["the state is in there:/old"]
    asked: list[bool] = []

    def claim(wanted: bool) -> str:
        asked.append(wanted)
        return trouble[0]

    runs = Runs(lambda: told, claim)
    runs.start()
    try:
        runs.want(ONE)
        runs.hold(True)
        settled(runs)
        assert (told.calls, runs.causes) == ([], {"CSAS_A_1": trouble[0]})
        trouble[0] = ""
        runs.look_again()
        settled(runs)
        runs.look_again()
        settled(runs)
        assert (told.calls, runs.causes) == (["start CSAS_A_1"], {})
        runs.want(after("TERMINATE CSAS_A_1;", state=ONE))
        settled(runs)
        assert asked == [True, True, False], "and nobody's, when there are no queries"
    finally:
        runs.close()
