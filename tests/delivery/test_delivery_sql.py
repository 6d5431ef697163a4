"""A SQL server, killed at random: the results of its queries are right, each row once.

`OTTLA_SEED=... pytest tests/delivery/test_delivery_sql.py` repeats a run's schedule.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_connect import WorkerLife
from delivery_run import seed_of_this_run
from delivery_sql import SqlRun, lives, summary

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
LIVES = 2


def test_every_result_is_right_when_processes_are_killed(tmp_path: Path) -> None:
    seed = seed_of_this_run()
    run = SqlRun(seed, lives(seed, LIVES, zombies=True), tmp_path)
    wrong = run()
    print(summary(run))
    assert not wrong, f"OTTLA_SEED={seed}\n" + "\n".join(wrong)


def test_at_least_once_the_results_are_wrong(tmp_path: Path) -> None:
    """The test can fail: all processes die after tasks have written, before Spark knows."""
    run = SqlRun(1, [WorkerLife("point", point="deciding", who="all")], tmp_path)
    run.delivery = "at_least_once"
    wrong = run()
    assert any("is there 2 times" in words or " after " in words for words in wrong), wrong
