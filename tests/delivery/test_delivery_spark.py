"""A Spark job from topic to topic, killed at random: every record is in the target, once.

`OTTLA_SEED=... pytest tests/delivery/test_delivery_spark.py` repeats a run's schedule. `make chaos`
runs the same for longer, with kills of the broker and with zombies.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_run import seed_of_this_run
from delivery_spark import JobLife, SparkRun, lives, summary

pytestmark = [pytest.mark.delivery, pytest.mark.timeout(3600)]
LIVES = 2


def test_every_record_is_written_once(tmp_path: Path) -> None:
    seed = seed_of_this_run()
    run = SparkRun(seed, lives(seed, LIVES), tmp_path)
    wrong = run()
    print(summary(run))
    assert not wrong, f"OTTLA_SEED={seed}\n" + "\n".join(wrong)


def test_without_exactly_once_records_are_duplicated(tmp_path: Path) -> None:
    """The test can fail: the driver dies after tasks have written, before Spark knows."""
    plan = [JobLife("point", "deciding", "all", 1)]
    run = SparkRun(1, plan, tmp_path, delivery="at_least_once")
    wrong = run()
    assert any("is there 2 times" in message for message in wrong), wrong
