"""The life of a query, as transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from query_transcript import replay

SCENARIOS = sorted((Path(__file__).parent / "queries").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_query_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = replay(written)
    if rewrite:
        path.write_text(happened)
    assert happened == written or rewrite
