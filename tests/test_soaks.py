"""The scripts of `make chaos` and `make fuzz` start, though CI does not run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SCRIPTS = sorted(set(re.findall(r"python (\S+\.py) --minutes", MAKEFILE)))


def test_make_has_soaks() -> None:
    assert "tests/chaos/storms.py" in SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_soak_starts_as_make_starts_it(script: str) -> None:
    """pytest's own path would hide a module that the script does not find."""
    command = [sys.executable, script, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--minutes" in done.stdout
