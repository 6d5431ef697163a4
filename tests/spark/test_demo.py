"""`make demo` ends by itself, and says that all three agree with what was sent."""

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
    joined, counted, stored = ran.stdout.rstrip().splitlines()[-3:]
    assert joined.endswith("in all windows: all that were sent, each once.")
    assert counted.endswith("orders counted by the stream job: as it should be.")
    assert stored.endswith("Parquet files of 10: as it should be.")
