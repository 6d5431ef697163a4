"""The plan of the nemesis depends only on its seed, and includes all essential faults."""

from __future__ import annotations

import pytest
from chaos_plan import CONTROLLER, ESSENTIAL, EXCHANGES, LEADER, ChaosTargets, make_plan

SETTING = ChaosTargets(workers=("source0", "transform0"))


def test_a_seed_repeats_its_plan() -> None:
    assert make_plan(7, 60, SETTING) == make_plan(7, 60, SETTING)
    assert make_plan(7, 60, SETTING) != make_plan(8, 60, SETTING)
    assert str(make_plan(7, 60, SETTING)).startswith("OTTLA_SEED=7\nstorm 1:\n")


@pytest.mark.parametrize("seed", range(20))
def test_every_plan_has_the_essential_faults(seed: int) -> None:
    plan = make_plan(seed, 24, SETTING)
    kinds = {fault.kind for storm in plan.storms for fault in storm}
    assert all(kinds.intersection(group) for group in ESSENTIAL)


@pytest.mark.parametrize("seed", range(20))
def test_over_tls_every_plan_replaces_certificates_in_each_way(seed: int) -> None:
    plan = make_plan(seed, 12, SETTING.secured())
    assert all(plan.count(kind) for kind in EXCHANGES)
    renewed = [f.targets for storm in plan.storms for f in storm if f.kind.startswith("renew")]
    assert all(target in SETTING.brokers for (target,) in renewed)
    assert not any(make_plan(seed, 60, SETTING).count(kind) for kind in EXCHANGES)


@pytest.mark.parametrize("seed", range(20))
def test_faults_come_in_order_and_have_targets_that_exist(seed: int) -> None:
    known = {*SETTING.brokers, *SETTING.workers, LEADER, CONTROLLER}
    for storm in make_plan(seed, 60, SETTING).storms:
        times = [fault.at_s for fault in storm]
        assert times == sorted(times)
        for fault in storm:
            assert known.issuperset(fault.targets)
            assert fault.for_s > 0


def test_a_session_expires_only_after_its_time() -> None:
    faults = [
        f for seed in range(50) for storm in make_plan(seed, 60, SETTING).storms for f in storm
    ]
    expiries = [fault for fault in faults if fault.kind == "expire"]
    assert expiries
    assert all(fault.for_s > SETTING.session_s for fault in expiries)


def test_a_long_run_has_many_storms() -> None:
    assert len(make_plan(1, 120, SETTING).storms) == 10


def test_kinds_of_faults_can_be_chosen() -> None:
    plan = make_plan(3, 60, ChaosTargets(workers=("w",), kinds=("kill", "pause")))
    assert {fault.kind for storm in plan.storms for fault in storm} == {"kill", "pause"}
