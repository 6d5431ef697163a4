"""When a run of a connector is through: what there is to copy has come, and no more will."""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_connect import FIRST, ConnectRun
from delivery_connect_subjects import Lines, Numbers, Source


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
