"""A storm finds real bugs: on brokers with a built-in fault, a run fails.

There are no other faults. Java (and franz-go, if it is built) write transactions back to back while
others read and write, until enough has come out; certificates are exchanged if that is broken.
`OTTLA_MUTANTS=1` (make chaos) runs them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chaos_checks import violations
from chaos_plan import Fault, Plan
from chaos_run import ClusterRun
from delivery_run import Case

RECORDS_MIN = 150
HEAL_S, CALM_S = 15.0, 20.0
# The fault, and a part of the violation that must be reported.
UNEXPLAINED = "no timeout of their epoch explains"
MUTANTS = {"fence-early": UNEXPLAINED, "void-next": UNEXPLAINED}
TLS_MUTANTS = {
    "keep-certificates": "shows another certificate",
    "forget-mechanisms": "Failed authentication",
}
EXCHANGES = (Fault(0.5, "renew by file", ("1",)), Fault(1.0, "renew by config", ("2",)))

pytestmark = [
    pytest.mark.delivery,
    pytest.mark.timeout(900),
    pytest.mark.skipif("OTTLA_MUTANTS" not in os.environ, reason="a part of make chaos"),
]


@pytest.mark.parametrize("fault", MUTANTS)
def test_a_run_finds_a_broken_cluster(fault: str, tmp_path: Path) -> None:
    run = ClusterRun(Case("exactly_once"), 7, 1.0, tmp_path, records_min=RECORDS_MIN)
    run.plan = Plan(run.seed, ((),))
    for broker in run.cluster.brokers.values():
        broker.fault = fault
    found = violations(run())
    assert any(MUTANTS[fault] in violation for violation in found), found


@pytest.mark.parametrize("fault", ["none", *TLS_MUTANTS])
def test_a_run_finds_a_broker_that_locks_clients_out(fault: str, tmp_path: Path) -> None:
    """Without a fault the exchange of certificates alone is not a finding."""
    run = ClusterRun(
        Case("at_least_once"), 7, 1.0, tmp_path, secured=True, converge_s=HEAL_S, calm_s=CALM_S
    )
    run.plan = Plan(run.seed, (EXCHANGES,))
    run.cluster.brokers["2"].fault = fault
    found = violations(run())
    if fault == "none":
        assert found == []
    else:
        assert any(TLS_MUTANTS[fault] in violation for violation in found), found
