"""`make demo` ends by itself and reports that all three results agree with what was sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_ends_by_itself_and_agrees_with_what_was_sent() -> None:
    ran = subprocess.run(
        [sys.executable, str(DEMO), "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "CREATE TABLE revenue AS" in ran.stdout
    lines = ran.stdout.splitlines()
    ends = (
        "in all windows: all that were sent, each once.",
        "orders counted by the stream job: as it should be.",
        "Parquet files of 10: as it should be.",
    )
    for end in ends:
        assert sum(line.endswith(end) for line in lines) == 1
    steps = (
        "== A broker and a schema registry start",
        "== Spark starts (local[*], heap 1g)",
        "== The queries wait for Spark",
        "== The stream job counts the last orders",
        "== The connector writes the last payments",
    )
    for step in steps:
        assert step in lines, "no step is silent for long"
        assert any(line.startswith(f"{step}: done in ") for line in lines)
