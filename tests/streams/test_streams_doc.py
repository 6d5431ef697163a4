"""The job of docs/streams.md, its windows and joins, and the test that the page has."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from ottla import streams
from ottla.streams import Json, String, Topology

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"


def pieces() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_pages_job_passes_the_pages_test() -> None:
    job = pieces()[0]
    (test,) = (piece for piece in pieces() if "TopologyTestDriver" in piece)
    names: dict[str, Any] = {}
    exec(job, names)
    exec(test, names)
    assert names["sale"]["name"] == "Ada"


def test_the_other_pieces_of_topologies_can_be_built() -> None:
    builds = [piece for piece in pieces()[1:] if "topology." in piece]
    for build in builds:
        names = {name: getattr(streams, name) for name in streams.__all__ if name != "Application"}
        names["timedelta"] = timedelta
        names["topology"] = Topology(key=String(), value=Json())
        exec(build, names)
        assert names["topology"].describe().startswith("Topologies:")
