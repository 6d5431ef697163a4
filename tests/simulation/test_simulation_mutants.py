"""The simulation can fail: each mistake that is built into replication is found in a few hundred
histories at most."""

from __future__ import annotations

import pytest
from sim_mutants import MUTANTS
from sim_search import histories

HISTORIES_MAX = 300

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_found(name: str) -> None:
    with MUTANTS[name]():
        for count, world in enumerate(histories(range(HISTORIES_MAX)), 1):
            if world.found:
                print(f"{name}: found in history {count}: {world.found[0]}")
                return
    pytest.fail(f"not found in {HISTORIES_MAX} histories")
