"""The same for a Streams application: with state, and task hosts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path

from delivery_spark import (
    HERE,
    PARTITIONS,
    RECORDS,
    JobLife,
    SparkRun,
    lives,
    summary,
)
from delivery_spark_points import DIE
from delivery_streams_job import DIE_AT, KEYED

from ottla.client import Producer

__all__ = ["StreamsRun", "stream_lives", "summary"]


def stream_lives(seed: int, count: int, **more: bool) -> list[JobLife]:
    """As for any job; in some of them a task host dies as well, and some start without the state
    directory of the lives before, as on another machine."""
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

    def _checkpoint(self, life: JobLife) -> Path:
        if life.lost:
            self.moves += 1
            self.done["state lost"] += 1
        return self.directory / f"checkpoint-{self.moves}"

    @property
    def keyed(self) -> bool:
        """For half of the seeds records have keys already, so that there is no shuffle and tasks
        run where their partitions are read."""
        return self.seed % 2 == 1

    def _fill(self, number: int) -> None:
        if not self.keyed:
            SparkRun._fill(self, number)
            return
        with Producer(self._broker.bootstrap, key=str, value=str) as producer:
            for record in range(RECORDS):
                partition = record % PARTITIONS
                key = str(number * PARTITIONS + partition)
                text = f"{key}:{record // PARTITIONS}"
                producer.send("source", text, key=key, partition=partition)
                self.expected.append(text)

    def _environment(self, life: JobLife, number: int) -> dict[str, str]:
        found = SparkRun._environment(self, life, number)
        # Only one host: its successors would die as well, and there would be no progress.
        if life.who == "worker":
            found[DIE] = json.dumps({**json.loads(found[DIE]), "once": True})
        if self.keyed:
            found[KEYED] = "1"
        if life.home:
            found[DIE_AT] = f"{life.home} {self.directory / f'home-{life.home}'}"
        return found
