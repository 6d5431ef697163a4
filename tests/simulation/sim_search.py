"""Histories, one seed after another."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from sim_loop import simulate
from sim_world import Settings, World


def histories(seeds: Iterable[int], settings: Settings | None = None) -> Iterator[World]:
    """Each after its run, with `found` in it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what brokers say in the worst of times would fill pages
    try:
        for seed in seeds:
            world = World(seed, settings or Settings())
            world.found = simulate(world.run())
            yield world
    finally:
        logging.disable(before)


def story(world: World) -> str:
    """What happened, for who has to find out why."""
    lines = [f"OTTLA_SEED={world.seed}", *world.said, *world.found[:20]]
    return "\n".join(lines)
