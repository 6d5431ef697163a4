"""When a query is stopped: between two batches, if there is a gap soon."""

from __future__ import annotations

from typing import Any, cast

import pytest
from streaming_query import StreamingQuery

from ottla.connect.run import connector_runner
from ottla.connect.run.connector_runner import ConnectorRun
from ottla.queries import query_run
from ottla.queries.query_run import QueryRun


class WaitingRun(QueryRun):
    waits_for_data = True


class PolledQuery(StreamingQuery):
    """Its trigger is always active; counts the polls."""

    def __init__(self, *, has_data: bool) -> None:
        super().__init__()
        self.looks = 0
        self._has_data = has_data

    @property
    def status(self) -> dict[str, bool]:  # type: ignore[override]
        self.looks += 1
        return {"isTriggerActive": True, "isDataAvailable": self._has_data}


class SleepClock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


@pytest.mark.parametrize(
    ("run", "has_data", "waits"),
    [(WaitingRun, False, False), (WaitingRun, True, True), (QueryRun, False, True)],
)
def test_a_waiting_source_is_between_two_batches(
    run: type[QueryRun], has_data: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle connector stops at once, and not after seconds."""
    monkeypatch.setattr(query_run, "time", SleepClock())
    query: Any = PolledQuery(has_data=has_data)
    run(query).stop()
    assert not query.isActive
    assert (query.looks > 1) == waits


def test_a_waiting_connector_is_between_two_batches() -> None:
    assert ConnectorRun.waits_for_data


@pytest.mark.parametrize(
    ("batch_s", "left_s"), [(0.0, 5.0), (2.0, 3.0), (10.0, 2.0)], ids=["idle", "short", "long"]
)
def test_tasks_end_within_the_time_that_the_batch_has_left(
    batch_s: float, left_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five seconds together, as for a worker of Kafka. A batch gets three of them at most."""
    clock = SleepClock()
    monkeypatch.setattr(query_run, "time", clock)
    monkeypatch.setattr(connector_runner, "time", clock)
    query: Any = BatchQuery(clock, batch_s)
    waits: list[float] = []
    ConnectorRun(cast(Any, FinishedReports(query)), cast(Any, ReportIgnorer()), waits.append).stop()
    assert not query.isActive
    assert waits == [pytest.approx(left_s, abs=0.05)]


class BatchQuery(StreamingQuery):
    """In the middle of a batch for `batch_s`."""

    def __init__(self, clock: SleepClock, batch_s: float) -> None:
        super().__init__()
        self._clock, self._until = clock, clock.monotonic() + batch_s

    @property
    def status(self) -> dict[str, bool]:  # type: ignore[override]
        return {"isTriggerActive": True, "isDataAvailable": self._clock.monotonic() < self._until}


class FinishedReports:
    def __init__(self, query: Any) -> None:
        self.query = query

    def close(self) -> None:
        pass


class ReportIgnorer:
    def collect_last_reports(self, run: ConnectorRun) -> None:
        pass
