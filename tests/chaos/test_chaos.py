"""A cluster in a storm: brokers, ZooKeeper, network, disks and clocks fail; all guarantees hold.

A failure names its seed; `OTTLA_SEED=... pytest tests/chaos -m delivery` repeats its faults, and
`make chaos minutes=30` runs longer storms. The plan is printed first.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_checks import cluster_evidence, violations
from chaos_plan import EXCHANGES
from chaos_run import ClusterRun
from delivery_checks import evidence, records_through, summary
from delivery_run import Case, seed_of_this_run

SECONDS = 12.0
RECORDS_MIN = 10
FAULTS_MIN = 3

pytestmark = [pytest.mark.delivery, pytest.mark.timeout(600)]


def test_a_cluster_in_a_storm_keeps_its_promises(tmp_path: Path) -> None:
    case = Case("exactly_once", "classic", "cooperative-sticky")
    promises_are_kept(
        ClusterRun(case, seed_of_this_run(), SECONDS, tmp_path, records_min=RECORDS_MIN)
    )


def test_a_cluster_over_sasl_ssl_replaces_its_certificates_in_a_storm(tmp_path: Path) -> None:
    """No record is lost, and no authorized client is refused."""
    seed, least = seed_of_this_run(), RECORDS_MIN
    case = Case("at_least_once", "consumer")
    run = ClusterRun(case, seed, SECONDS, tmp_path, records_min=least, secured=True)
    promises_are_kept(run)
    assert all(run.done[kind] for kind in EXCHANGES), run.done


def promises_are_kept(run: ClusterRun) -> None:
    history, case = run(), run.case
    print(f"{case}: {dict(run.done)}; {summary(history)}; {cluster_evidence(history)}")
    broken = violations(history)
    assert not broken, f"OTTLA_SEED={run.seed}\n{run.plan}\n" + "\n".join(broken)
    assert run.done.total() >= FAULTS_MIN, run.done  # some hit a broker that is down already
    assert records_through(history) >= RECORDS_MIN, summary(history)
    assert all(cluster_evidence(history).values()), cluster_evidence(history)
    seen = evidence(history)
    for elsewhere in ("batches read again", "moves of a high watermark"):
        del seen[elsewhere]  # of the watch of a single broker; a cluster counts its own evidence
    assert all(seen.values()), seen
