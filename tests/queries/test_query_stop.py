"""When a query is stopped: between two batches, if there is a gap soon."""

from __future__ import annotations

from typing import Any

import pytest
from streaming_query import StreamingQuery

from ottla.connect.run.runner import ConnectorRun
from ottla.queries import query_run
from ottla.queries.query_run import QueryRun


class Waiting(QueryRun):
    waits_for_data = True


class Looked(StreamingQuery):
    """Its trigger is active all the time; counts how often somebody looks."""

    def __init__(self, *, has_data: bool) -> None:
        super().__init__()
        self.looks = 0
        self._has_data = has_data

    @property
    def status(self) -> dict[str, bool]:  # type: ignore[override]
        self.looks += 1
        return {"isTriggerActive": True, "isDataAvailable": self._has_data}


@pytest.mark.parametrize(
    ("run", "has_data", "waits"),
    [(Waiting, False, False), (Waiting, True, True), (QueryRun, False, True)],
)
def test_a_source_that_waits_for_data_is_between_two_batches(
    run: type[QueryRun], has_data: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector without anything to do is stopped at once, and not after seconds."""
    monkeypatch.setattr(query_run, "IDLE_WAIT_S_MAX", 0.05)
    query: Any = Looked(has_data=has_data)
    run(query).stop()
    assert not query.isActive
    assert (query.looks > 1) == waits


def test_a_connector_is_such_a_source() -> None:
    assert ConnectorRun.waits_for_data
