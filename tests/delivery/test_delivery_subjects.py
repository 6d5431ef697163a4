"""Runs without connectors: when a run ends, and how often a process dies in it."""

from __future__ import annotations

from pathlib import Path

import delivery_spark_points
import pytest
from delivery_connect import FIRST, ConnectRun
from delivery_connect_subjects import GrowingFile, Numbers, Source
from delivery_spark_points import Point


@pytest.mark.parametrize(("kind", "more"), [(Numbers, False), (GrowingFile, True)])
def test_a_run_ends_when_no_more_records_will_come(
    kind: type[Numbers | GrowingFile], more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All numbers exist when a life begins; a file grows, up to a limit."""
    subject = kind("nowhere:1", tmp_path)
    subject.config()
    monkeypatch.setattr(Source, "found", lambda its: its.count)
    run = ConnectRun(1, [], tmp_path)
    run._subject = subject
    run._limit = subject.count + FIRST
    assert run._is_through() is not more
    run._limit = subject.count
    assert run._is_through()


def test_a_process_dies_at_a_crash_point_and_its_successors_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connector retries forever: if each worker died, a life would never end."""
    died: list[str] = []
    monkeypatch.setattr(delivery_spark_points, "die", died.append)
    crash = {
        "point": "sent",
        "hit": 2,
        "who": "worker",
        "mark": str(tmp_path / "died"),
        "once": True,
    }
    for _ in range(3):
        point = Point(crash)  # each process has its own
        for _ in range(5):
            point.passed()
    assert died == ["worker"]
