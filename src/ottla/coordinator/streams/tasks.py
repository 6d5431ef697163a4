"""The unit of work of a streams group: one partition of one subtopology, in one role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple


class TaskRole(IntEnum):
    """An active task processes records; the others only keep a copy of its state."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


class StreamsTask(NamedTuple):
    """One task as one member has it."""

    role: TaskRole
    subtopology_id: str
    partition: int


TaskSet = frozenset[StreamsTask]
TaskEpochs = Mapping[StreamsTask, int]  # with the epoch in which the member got each

NO_TASKS: TaskSet = frozenset()


def tasks_of(role: TaskRole, tasks: Iterable[StreamsTask]) -> dict[str, list[int]]:
    """The tasks of one role as messages and records have them: partitions by subtopology."""
    found: dict[str, list[int]] = {}
    for task in sorted(tasks):
        if task.role is role:
            found.setdefault(task.subtopology_id, []).append(task.partition)
    return found
