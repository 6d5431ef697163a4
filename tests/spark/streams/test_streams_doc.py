"""The job of docs/streams.md, and the test of it that the page has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"


def test_the_pages_job_passes_the_pages_test() -> None:
    job, _, test = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(job, names)
    exec(test, names)
    assert names["sale"]["name"] == "Ada"
