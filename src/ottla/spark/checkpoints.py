"""Reads Spark's checkpoints: how far a query has come, and whether a batch is unfinished.

A checkpoint has a file per batch in `offsets/`, written before the batch runs with the offsets
where it ends, and one in `commits/`, written after it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ottla.spark.offsets import CLOCK

Position = dict[str, dict[str, int]]
"""Topic -> partition -> next offset, in the source's format."""


class QueryCheckpoint:
    """The checkpoint folder of one Spark query."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def location(self) -> str:
        """For Spark, on the local file system. Hadoop decodes nothing in a URI: with `Path.as_uri`
        the checkpoint of `/my state` would be in `/my%20state`, where nothing looks for it."""
        return f"file://{self.path.absolute()}"

    @property
    def exists(self) -> bool:
        return (self.path / "metadata").exists()

    @property
    def query_id(self) -> str:
        """Spark's id of the query; empty if it has never been started."""
        known = read_json(self.path / "metadata")
        return str(known["id"]) if known else ""

    @property
    def begun(self) -> bool:
        """True if the query has planned a batch, so its position is known."""
        return self._last("offsets") >= 0

    @property
    def at_border(self) -> bool:
        """True if every planned batch is committed."""
        return self._last("offsets") == self._last("commits")

    @property
    def last_done(self) -> int:
        """The number of the last committed batch; -1 if there is none."""
        return self._last("commits")

    def position(self) -> Position:
        """The end offsets of the last committed batch; empty if there is none."""
        done = self._last("commits")
        return self._offsets(done) if done >= 0 else {}

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _last(self, log: str) -> int:
        folder = self.path / log
        if not folder.is_dir():
            return -1
        return max((int(file.name) for file in folder.iterdir() if file.name.isdigit()), default=-1)

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
    """Atomic and durable: a crash leaves the old file or the new one."""
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
    """True if `position` is before `other` in some partition."""
    return distance(position, other) > 0


def distance(position: Position, other: Position) -> int:
    """The number of offsets between them, in partitions where `position` is earlier."""
    return sum(
        max(offset - position.get(topic, {}).get(partition, 0), 0)
        for topic, partitions in other.items()
        for partition, offset in partitions.items()
    )


def earliest_of(positions: list[Position]) -> Position:
    """The smallest offset of each partition; 0 for a partition that some positions lack."""
    found: Position = {}
    for topic in {topic for position in positions for topic in position}:
        partitions = {p for position in positions for p in position.get(topic, {})}
        found[topic] = {
            p: min(position.get(topic, {}).get(p, 0) for position in positions)
            for p in sorted(partitions, key=int)
        }
    return found
