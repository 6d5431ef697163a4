"""The status of a connector and its tasks, in Kafka Connect's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ConnectorState(StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(StrEnum):
    """The state that a user has requested; the config topic uses these names."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    id: int
    state: ConnectorState
    trace: str | None = None
    """The stack trace, if the task FAILED."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector with all its tasks; a STOPPED one has no tasks."""

    name: str
    state: ConnectorState
    trace: str | None = None
    tasks: tuple[TaskStatus, ...] = ()
    topics: frozenset[str] = frozenset()
    """The topics that it has read or written since it started."""
    generation: int = 0
    progress: Mapping[str, float] = field(default_factory=dict)
    """Figures of the last batch: rows, lag, rows_per_second, batch_ms."""
