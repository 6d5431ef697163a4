"""Runs of connectors, without any: when one is through, and how often a process dies in it."""

from __future__ import annotations

from pathlib import Path

import delivery_spark_points
import pytest
from delivery_connect import FIRST, ConnectRun
from delivery_connect_subjects import Lines, Numbers, Source
from delivery_spark_points import Point


@pytest.mark.parametrize(("kind", "more"), [(Numbers, False), (Lines, True)])
def test_a_run_is_through_when_no_more_will_come(
    kind: type[Numbers | Lines], more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are all there when a life begins; a file grows, up to a limit."""
    subject = kind("nowhere:1", tmp_path)
    subject.config()
    monkeypatch.setattr(Source, "found", lambda its: its.count)
    run = ConnectRun(1, [], tmp_path)
    run._subject = subject
    run._limit = subject.count + FIRST
    assert run._is_through() is not more
    run._limit = subject.count
    assert run._is_through()


def test_one_process_dies_at_a_point_and_those_after_it_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector tries again for ever: if each worker died, a life would never end."""
    died: list[str] = []
    monkeypatch.setattr(delivery_spark_points, "die", died.append)
    wish = {"point": "sent", "hit": 2, "who": "worker", "once": str(tmp_path / "died")}
    for _ in range(3):
        point = Point(wish)  # each process has its own
        for _ in range(5):
            point.passed()
    assert died == ["worker"]
