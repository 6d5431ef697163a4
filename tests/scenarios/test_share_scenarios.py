"""Share-partitions as transcripts: `pytest tests/scenarios --rewrite` writes them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from share_transcript import replay_share

SCENARIOS = sorted((Path(__file__).parent / "shares").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_share_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = replay_share(written)
    if rewrite:
        path.write_text(happened)
    assert happened == written or rewrite
