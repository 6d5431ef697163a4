"""The same for an application of Streams: with state, and processes where tasks are at home."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from delivery_spark import HERE, Life, SparkRun, lives, summary
from delivery_streams_job import DIE_AT

__all__ = ["StreamsRun", "stream_lives", "summary"]


def stream_lives(seed: int, count: int, **more: bool) -> list[Life]:
    """As for any job; in some of them the home of a task dies besides, and some are led on another
    machine: without the state directory of those before."""
    chance = random.Random(f"streams {seed}")
    found = []
    for life in lives(seed, count, **more):
        at = chance.choice([0, chance.randrange(1, 120)])
        lost = bool(found) and chance.random() < 0.4
        found.append(replace(life, shuffled=0, home=at, lost=lost))
    return found


@dataclass(slots=True)
class StreamsRun(SparkRun):
    job: Path = HERE / "delivery_streams_job.py"
    moves: int = 0

    def _checkpoint(self, life: Life) -> Path:
        if life.lost:
            self.moves += 1
            self.done["state lost"] += 1
        return self.directory / f"checkpoint-{self.moves}"

    def _environment(self, life: Life) -> dict[str, str]:
        found = SparkRun._environment(self, life)
        return {**found, DIE_AT: str(life.home)} if life.home else found
