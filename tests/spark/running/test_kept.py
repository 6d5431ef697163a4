"""A query is kept running, and whatever ends it is noticed: with queries that only say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ottla.spark.running import kept, states
from ottla.spark.running.begin import Pace
from ottla.spark.running.kept import ENDED, THREAD_GONE, Kept, progress_of
from ottla.spark.running.states import State


class JavaThread:
    def __init__(self) -> None:
        self.alive = True

    def isAlive(self) -> bool:  # noqa: N802 (Java's name)
        return self.alive


class Query:
    """What Spark says of a query. Its thread is reached as in Spark."""

    lastProgress = None  # noqa: N815
    status: dict[str, bool] = {"isTriggerActive": False}  # noqa: RUF012

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.thread = JavaThread()
        self._jsq = self

    def streamingQuery(self) -> Query:  # noqa: N802
        return self

    def queryExecutionThread(self) -> JavaThread:  # noqa: N802
        return self.thread

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive = False


class Runner:
    """A query that is kept, and every one that was begun for it."""

    def __init__(self) -> None:
        self.begun: list[Query] = []
        self.trouble: Exception | None = None
        self.kept = Kept("q", cast(Any, self._begin), Pace())
        self.kept.start()

    def _begin(self) -> Query:
        if self.trouble is not None:
            raise self.trouble
        self.begun.append(Query())
        return self.begun[-1]

    @property
    def last(self) -> Query:
        return self.begun[-1]


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(states, "BACK_OFF_FIRST_S", 0.01)
    monkeypatch.setattr(kept, "WATCH_S", 0.002)
    made = Runner()
    until(lambda: made.kept.state().state is State.RUNNING)
    yield made
    made.kept.stop()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_thread_that_has_died_is_noticed_though_spark_says_active(runner: Runner) -> None:
    first = runner.last
    first.thread.alive = False
    until(lambda: len(runner.begun) == 2)
    assert not first.isActive, "what is left of it is stopped"
    until(lambda: runner.kept.state().state is State.RUNNING)
    assert (runner.kept.state().restarts, runner.kept.state().cause) == (1, THREAD_GONE)


def test_one_that_ended_by_itself_is_begun_again_and_given_up_in_the_end(runner: Runner) -> None:
    for number in range(1, 5):
        until(lambda number=number: len(runner.begun) == number)  # type: ignore[misc]
        runner.last.isActive = False
    until(lambda: runner.kept.state().state is State.FAILED)
    assert runner.kept.state().cause == ENDED


def test_a_jvm_that_has_gone_is_waited_for(runner: Runner) -> None:
    class Py4JNetworkError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("not even its words can be had")

    runner.trouble = Py4JNetworkError()
    runner.last.thread.alive = False
    until(lambda: runner.kept.state().restarts > 5)
    runner.trouble = None
    until(lambda: runner.kept.state().state is State.RUNNING)


def test_its_phase_is_known_without_asking_spark(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(kept, "progress_of", lambda spell: asked.append(spell) or {})
    assert runner.kept.phase is State.RUNNING
    assert not asked
    assert runner.kept.state().state is State.RUNNING
    assert len(asked) == 1


def test_a_query_that_is_stopped_before_it_was_started() -> None:
    waiting = Kept("q", cast(Any, Query), Pace())
    waiting.stop()
    waiting.start()
    until(lambda: waiting.state().state is State.STOPPED)


@pytest.mark.parametrize(
    ("latest", "end", "lag"),
    [
        ({"t": {"0": 7}}, {"t": {"0": 4}}, 3),
        ('{"offsets": {"0": 9}}', '{"offsets": {"0": 9}}', 0),  # a topic of this name
        ({"offsets": {"t": {"0": 7}}}, {"batch": 2, "offsets": {"t": {"0": 5}}}, 2),
        ({"batch": 3}, {"batch": 3}, 0),
        (None, "no JSON", 0),
    ],
)
def test_lag_is_told_of_every_source(latest: object, end: object, lag: int) -> None:
    class Asked:
        def progress(self) -> dict[str, object]:
            return {"batchId": 1, "sources": [{"latestOffset": latest, "endOffset": end}]}

    assert progress_of(Asked())["lag"] == lag  # type: ignore[arg-type]
