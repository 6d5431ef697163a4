"""Histories, one seed after another."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from sim_loop import simulate
from sim_world import Settings, World


def histories(seeds: Iterable[int], settings: Settings | None = None) -> Iterator[World]:
    """Yields each world after its run, with its violations."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the brokers' logs would fill pages
    try:
        for seed in seeds:
            world = World(seed, settings or Settings())
            world.found = simulate(world.run())
            yield world
    finally:
        logging.disable(before)


def story(world: World) -> str:
    """The story of a history, for its analysis."""
    lines = [f"OTTLA_SEED={world.seed}", *world.said, *world.found[:20]]
    return "\n".join(lines)
