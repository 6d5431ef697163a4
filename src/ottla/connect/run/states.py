"""How a connector and its tasks are, in Kafka Connect's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class Target(StrEnum):
    """What a person wants a connector to be (the config topic has it by these names)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class TaskStatus:
    id: int
    state: State
    trace: str | None = None
    """Of a task that FAILED: why, with the stack."""


@dataclass(frozen=True, slots=True)
class Status:
    """A connector with all its tasks; one that is STOPPED has none."""

    name: str
    state: State
    trace: str | None = None
    tasks: tuple[TaskStatus, ...] = ()
    topics: frozenset[str] = frozenset()
    """Those that it has read or written since it started."""
    generation: int = 0
    progress: Mapping[str, float] = field(default_factory=dict)
    """Figures of the last batch: rows, lag, rows_per_second, batch_ms."""
