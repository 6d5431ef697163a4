"""The simulation can fail: it finds each fault built into replication."""

from __future__ import annotations

import pytest
from sim_mutants import MUTANTS
from sim_search import histories

HISTORIES_MAX = 300
# Each of these seeds found one of the faults when this was written. They come first, to save
# time; a change of the code gives every seed another history, and then the others have their turn.
LUCKY = (3, 8, 14, 47, 11, 66, 171, 195)

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", MUTANTS)
def test_an_injected_bug_is_found(name: str) -> None:
    seeds = [*LUCKY, *range(HISTORIES_MAX)]
    with MUTANTS[name]():
        for count, world in enumerate(histories(seeds), 1):
            if world.found:
                print(f"{name}: history {count}, seed {world.seed}: {world.found[0]}")
                return
    pytest.fail(f"not found in {len(seeds)} histories")
