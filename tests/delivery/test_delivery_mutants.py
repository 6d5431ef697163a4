"""The harness can fail: it finds the fault built into a broker.

Faults of the broker only, no faults of the schedule but the first second's: each is found in a few
seconds. One of them is in every `make test`; all are in `make chaos`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from compat_brokers import Broker
from delivery_checks import violations
from delivery_run import Case, Run

pytestmark = [pytest.mark.delivery, pytest.mark.timeout(300)]
apache = os.environ.get("OTTLA_COMPAT_BROKER") == "apache"

# The fault, and a part of the expected violation.
MUTANTS = {
    "list-nothing": "observer",
    "commit-all": "was aborted, and is to be seen",
    "drop-markers": "every transaction ends",
    "drop-offsets": "times in",
}
# One is enough for every run; OTTLA_MUTANTS=1 (make chaos) runs all.
CHOSEN = list(MUTANTS) if "OTTLA_MUTANTS" in os.environ else ["list-nothing"]


class BrokenBroker(Broker):
    fault = ""

    def command(self) -> list[str]:
        launcher = Path(__file__).with_name("broken_broker.py")
        return [sys.executable, str(launcher), self.fault, *super().command()[1:]]


@pytest.mark.skipif(apache, reason="the faults are put into Ottla")
@pytest.mark.parametrize("fault", CHOSEN)
def test_a_broken_broker_is_detected(fault: str, tmp_path: Path) -> None:
    def launch(directory: Path, settings: dict[str, str]) -> Broker:
        broker = BrokenBroker(directory, settings)
        broker.fault = fault
        return broker.start()

    run = Run(Case("exactly_once"), 7, seconds=2.0, directory=tmp_path, launch=launch, calm_s=12.0)
    found = violations(run())
    assert any(MUTANTS[fault] in violation for violation in found), found
