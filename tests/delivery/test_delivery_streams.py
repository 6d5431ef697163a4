"""A Streams application with state, killed at random: every record has counted once."""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_run import seed_of_this_run
from delivery_streams import StreamsRun, stream_lives, summary

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
LIVES = 1


def test_every_record_is_counted_once(tmp_path: Path) -> None:
    seed = seed_of_this_run()
    run = StreamsRun(seed, stream_lives(seed, LIVES), tmp_path)
    wrong = run()
    print(summary(run))
    assert not wrong, f"OTTLA_SEED={seed}\n" + "\n".join(wrong)
