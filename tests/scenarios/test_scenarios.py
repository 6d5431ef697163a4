"""Groups as transcripts: one event on a line, and below it the coordinator's results."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript import replay

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = replay(written)
    if rewrite:
        path.write_text(happened)
    assert happened == written or rewrite
