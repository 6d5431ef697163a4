"""What a checkpoint says: how far a query has come, and whether a batch of it is unfinished.

A checkpoint of Spark has one file for each batch in `offsets/`, written before the batch runs, and
one in `commits/`, written when it is done. The offsets in it are those where the batch ends.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ottla.spark.offsets import CLOCK

Position = dict[str, dict[str, int]]
"""Topic -> partition -> the offset that is read next; as the source writes its offsets."""


class Checkpoint:
    """The folder of one Spark query."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return (self.path / "metadata").exists()

    @property
    def query_id(self) -> str:
        """By which Spark knows the query; nothing if it has never been started."""
        known = read_json(self.path / "metadata")
        return str(known["id"]) if known else ""

    @property
    def begun(self) -> bool:
        """It knows where its query goes on, be it in the middle of the first batch."""
        return self._last("offsets") >= 0

    @property
    def at_border(self) -> bool:
        """No batch has been begun that is not done."""
        return self._last("offsets") == self._last("commits")

    @property
    def last_done(self) -> int:
        """The number of the last batch that is done; -1 if there is none."""
        return self._last("commits")

    def position(self) -> Position:
        """Where the last batch ended that is done; empty if there is none."""
        done = self._last("commits")
        return self._offsets(done) if done >= 0 else {}

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _last(self, log: str) -> int:
        folder = self.path / log
        if not folder.is_dir():
            return -1
        return max((int(e.name) for e in folder.iterdir() if e.name.isdigit()), default=-1)

    def _offsets(self, batch: int) -> Position:
        """The lines are: version, metadata, then one for each source."""
        lines = (self.path / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        position: Position = {}
        for line in lines[2:]:
            if line.startswith("{"):
                for topic, partitions in json.loads(line).items():
                    if topic != CLOCK:
                        position.setdefault(topic, {}).update(partitions)
        return position


def write_json(path: Path, data: Any) -> None:
    """All of it or nothing, whenever the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_json(path: Path) -> Any | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def is_behind(position: Position, other: Position) -> bool:
    """In some partition `position` is before `other`."""
    return distance(position, other) > 0


def distance(position: Position, other: Position) -> int:
    """How many records lie between them, in the partitions where `position` is the earlier."""
    return sum(
        max(offset - position.get(topic, {}).get(partition, 0), 0)
        for topic, partitions in other.items()
        for partition, offset in partitions.items()
    )


def earliest_of(positions: list[Position]) -> Position:
    """For each partition the smallest offset. A partition that only some have begins at 0."""
    found: Position = {}
    for topic in {topic for each in positions for topic in each}:
        partitions = {p for each in positions for p in each.get(topic, {})}
        found[topic] = {
            p: min(each.get(topic, {}).get(p, 0) for each in positions)
            for p in sorted(partitions, key=int)
        }
    return found
