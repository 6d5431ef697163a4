"""`make demo` ends by itself, and says that the table agrees with what was sent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo_ends_by_itself_and_agrees_with_what_was_sent() -> None:
    ran = subprocess.run(
        [sys.executable, str(DEMO), "--seconds", "3"],
        capture_output=True,
        text=True,
        timeout=360,
    )
    said = ran.stdout.rstrip().splitlines() or [""]
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert said[-1].endswith("in all windows: all that were sent, each once.")
    assert "CREATE TABLE revenue AS" in ran.stdout
    assert not ran.stderr, ran.stderr[-3000:]
