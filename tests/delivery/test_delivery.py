"""Delivery guarantees: clients and the broker are killed at random, and all guarantees checked.

A failure names its seed; `OTTLA_SEED=... pytest tests/delivery -k exactly` repeats its faults.
`make chaos minutes=60` runs the same for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from delivery_checks import evidence, records_through, summary, violations
from delivery_run import Case, Run, seed_of_this_run

SECONDS = 8.0
RECORDS_MIN = 30
CASES = [
    Case("at_most_once", "classic", "range"),
    Case("at_least_once", "consumer"),
    Case("exactly_once", "classic", "cooperative-sticky"),
    Case("exactly_once", "consumer"),
]

pytestmark = [pytest.mark.delivery, pytest.mark.timeout(400)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_guarantees_hold_when_processes_are_killed(case: Case, tmp_path: Path) -> None:
    run = Run(case, seed_of_this_run(), SECONDS, tmp_path, records_min=2 * RECORDS_MIN)
    history = run()
    print(f"{case}: {dict(run.done)}; {summary(history)}")
    broken = violations(history)
    assert not broken, f"OTTLA_SEED={run.seed}\n" + "\n".join(broken)
    # These are in every plan (see delivery_faults), and every plan is executed completely.
    assert run.done["kill broker"]
    assert any(kind.startswith("kill") and "broker" not in kind for kind in run.done)
    assert records_through(history) > RECORDS_MIN, summary(history)
    assert all(evidence(history).values()), evidence(history)
