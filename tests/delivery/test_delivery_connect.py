"""A source connector, killed at random: every record is in the topic, once. Odd seeds: of a file.

`OTTLA_SEED=... pytest tests/delivery/test_delivery_connect.py` repeats a run's schedule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_connect import ConnectRun, lives, summary
from delivery_run import seed_of_this_run

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
LIVES = 1


def test_every_record_of_a_source_is_there_once(tmp_path: Path) -> None:
    seed = seed_of_this_run()
    run = ConnectRun(seed, lives(seed, LIVES), tmp_path, file=seed % 2 == 1)
    wrong = run()
    print(summary(run))
    assert not wrong, f"OTTLA_SEED={seed}\n" + "\n".join(wrong)
