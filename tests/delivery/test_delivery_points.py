"""Each point, at which processes of Spark jobs die, is a place in the sink that exists."""

from __future__ import annotations

import pytest
from delivery_spark_points import POINTS, Point, install, place_of


@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_patched_into_the_sink(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, function, _ = place_of(name)
    before = getattr(owner, function)
    monkeypatch.setattr(owner, function, before)  # put back at the end
    install(Point({"point": name, "hit": 1, "who": "worker", "mark": "", "once": True}))
    assert getattr(owner, function) is not before
