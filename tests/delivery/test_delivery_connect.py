"""Connectors, killed at random while they work: their guarantees hold.

The records of a source are in the topic once, in order; those of a topic are in files once, or in a
file at least once, and a sink's offsets never go back.
`OTTLA_SEED=... pytest tests/delivery/test_delivery_connect.py` repeats a run's schedule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_connect import ConnectRun, lives, summary
from delivery_connect_subjects import SUBJECTS
from delivery_run import seed_of_this_run

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
LIVES = 3


@pytest.mark.parametrize("connector", SUBJECTS)
def test_a_connectors_guarantee_holds_when_processes_are_killed(
    connector: str, tmp_path: Path
) -> None:
    seed = seed_of_this_run()
    plan = lives(seed, LIVES, sink=SUBJECTS[connector].sink, zombies=True)
    run = ConnectRun(seed, plan, tmp_path, connector)
    wrong = run()
    print(summary(run))
    assert not wrong, f"OTTLA_SEED={seed}\n" + "\n".join(wrong)
