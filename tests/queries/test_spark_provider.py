"""One Spark session per process: started on first use, and again after it has died."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from ottla.queries.spark_provider import OwnSession, SparkProvider
from ottla.spark import session
from ottla.spark.java import StartError


class Session:
    """A session whose JVM may die."""

    def __init__(self) -> None:
        self.alive = True
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class Starts:
    def __init__(self) -> None:
        self.made: list[Session] = []
        self.trouble: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()

    def __call__(self) -> Any:
        assert self.hold.wait(60)
        if self.trouble is not None:
            raise self.trouble
        self.made.append(Session())
        return self.made[-1]


@pytest.fixture(autouse=True)
def _liveness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "lives", lambda found: cast(Session, found).alive)


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest.fixture
def provider(starts: Starts) -> SparkProvider:
    return SparkProvider(starts)


def test_spark_is_started_once_and_again_after_its_jvm_died(
    starts: Starts, provider: SparkProvider
) -> None:
    assert provider.state == "not started"
    assert provider() is provider() is cast(Any, starts.made[0])
    starts.made[0].alive = False
    assert provider() is cast(Any, starts.made[1])
    provider.stop()
    assert starts.made[1].stopped


def test_spark_starts_in_the_background_and_calls_back(
    starts: Starts, provider: SparkProvider
) -> None:
    starts.hold.clear()
    done = threading.Event()
    provider.begin()
    provider.begin(done.set)
    assert provider.state == "starting"
    starts.hold.set()
    assert done.wait(60)
    assert provider.wait() == ""
    assert provider.state == "ready"
    assert len(starts.made) == 1


def test_a_failed_start_is_reported_and_retried_by_the_next_caller(
    starts: Starts, provider: SparkProvider
) -> None:
    starts.trouble = RuntimeError("no Java")
    assert provider.wait() == "no Java"
    assert provider.state == "failed"
    with pytest.raises(StartError, match="Spark did not start: no Java"):
        provider()
    starts.trouble = None
    provider()
    assert provider.state == "ready"


def test_nothing_waits_for_an_abandoned_spark(starts: Starts, provider: SparkProvider) -> None:
    starts.hold.clear()
    provider.begin()
    provider.give_up()
    with pytest.raises(StartError, match="the server was stopped first"):
        provider()
    starts.hold.set()


def test_a_private_session_is_recreated_with_a_new_spark(
    starts: Starts, provider: SparkProvider
) -> None:
    prepared: list[Any] = []

    def prepare(found: Any) -> Any:
        prepared.append(found)
        return found

    own = OwnSession(provider, prepare)
    assert own.get() is own.get()
    starts.made[0].alive = False
    assert own.get() is cast(Any, starts.made[1])
    assert prepared == starts.made
    assert own.take() is cast(Any, starts.made[1])
    assert own.take() is None
