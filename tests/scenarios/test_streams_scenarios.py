"""Streams groups, as transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest
from streams_transcript import replay_streams

SCENARIOS = sorted(Path(__file__).parent.glob("streams/*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_streams_scenario(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    happened = replay_streams(written)
    if rewrite:
        path.write_text(happened)
    assert happened == written or rewrite
