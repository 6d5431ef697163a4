"""The state of a query for users: its status, its last failure, its last batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class QueryStatus(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


# A query with several parts has the worst status of its parts.
_WORST: Final = (
    QueryStatus.FAILED,
    QueryStatus.RESTARTING,
    QueryStatus.STARTING,
    QueryStatus.STOPPED,
    QueryStatus.PAUSED,
    QueryStatus.RUNNING,
)


@dataclass(frozen=True, slots=True)
class QueryState:
    """`failed_ms` is the time of the last failure, `rows` the size of the last batch, `lag` the
    number of unread records."""

    state: QueryStatus
    cause: str = ""
    failed_ms: int = 0
    restarts: int = 0
    rows: int = 0
    lag: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    batch: int = -1
    """The number of the last completed batch."""
    metrics: dict[str, object] = field(default_factory=dict)


def worst(states: Iterable[QueryState]) -> QueryState:
    """The state of a query from those of its parts."""
    parts = list(states)
    if not parts:
        return QueryState(QueryStatus.STARTING)
    first = min(parts, key=lambda part: _WORST.index(part.state))
    failed = max(parts, key=lambda part: part.failed_ms)
    return QueryState(
        first.state,
        first.cause or failed.cause,
        failed.failed_ms,
        sum(part.restarts for part in parts),
        parts[0].rows,
        max(part.lag for part in parts),
        parts[0].rows_per_second,
        max(part.batch_ms for part in parts),
    )
