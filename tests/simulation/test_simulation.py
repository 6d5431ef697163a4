"""Seeded histories of a cluster in simulated time: with faults of every kind, nothing is lost.

A failure prints its seed and its story; `OTTLA_SEED=... pytest tests/simulation` repeats it, and
`python tests/simulation/simulate.py --minutes 10` looks for more.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from sim_search import histories, story
from sim_world import FAULTS, Settings

COUNT = 40
FIRST = 20_000

pytestmark = pytest.mark.timeout(300)


def test_seeded_histories_keep_every_guarantee() -> None:
    given = os.environ.get("OTTLA_SEED")
    seeds = [int(given)] if given else range(FIRST, FIRST + COUNT)
    done: Counter[str] = Counter()
    acked = 0
    for world in histories(seeds):
        assert not world.found, story(world)
        done += world.done
        acked += len(world.history.journals["producer"])
    if not given:
        assert set(done) == set(FAULTS), done  # each kind of fault was among them
        assert acked > 10 * COUNT


def test_a_seed_repeats_its_history() -> None:
    one, again, other = histories([5, 5, 6])
    assert one.said == again.said != other.said
    assert one.history.journals == again.history.journals
    assert one.history.polls == again.history.polls


def test_without_faults_everything_is_acknowledged_at_once() -> None:
    calm = Settings(gap_s=(10.0, 10.0), storm_s=0.3)
    for world in histories(range(3), calm):
        assert not world.found, story(world)
        assert not world.done
        assert len(world.history.journals["producer"]) > 20
