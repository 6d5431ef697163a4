"""How a query is, for people: its state, why it failed last, what its last batch did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class State(StrEnum):
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


# The state of a query with several parts is that of the part that is worst off.
_WORST: Final = (
    State.FAILED,
    State.RESTARTING,
    State.STARTING,
    State.STOPPED,
    State.PAUSED,
    State.RUNNING,
)


@dataclass(frozen=True, slots=True)
class QueryState:
    """`failed_ms` is when it last failed. `rows` were read in the last batch, `lag` are not yet."""

    state: State
    cause: str = ""
    failed_ms: int = 0
    restarts: int = 0
    rows: int = 0
    lag: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    batch: int = -1
    """The number of the last batch that is done."""
    metrics: dict[str, object] = field(default_factory=dict)


def worst(states: Iterable[QueryState]) -> QueryState:
    """Of all parts of a query."""
    parts = list(states)
    if not parts:
        return QueryState(State.STARTING)
    first = min(parts, key=lambda each: _WORST.index(each.state))
    failed = max(parts, key=lambda each: each.failed_ms)
    return QueryState(
        first.state,
        first.cause or failed.cause,
        failed.failed_ms,
        sum(each.restarts for each in parts),
        parts[0].rows,
        max(each.lag for each in parts),
        parts[0].rows_per_second,
        max(each.batch_ms for each in parts),
    )
