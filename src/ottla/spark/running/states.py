"""How a query is, and when a failed one is tried again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla.spark.running.causes import Verdict, verdict

BACK_OFF_FIRST_S: Final = 1.0
BACK_OFF_MAX_S: Final = 60.0
TRIES_MAX: Final = 3
"""For a cause that nobody knows."""
HEALTHY_AFTER_S: Final = 120.0
"""A query that ran so long has left its old failures behind."""


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


class Tries:
    """Back-off: how long to wait after a failure, and when to give up."""

    def __init__(self) -> None:
        self.restarts = 0
        self._in_a_row = 0

    def failed(self, cause: str, ran_s: float) -> float | None:
        """Seconds until the next try; None: there is none."""
        if ran_s >= HEALTHY_AFTER_S:
            self._in_a_row = 0
        self._in_a_row += 1
        found = verdict(cause)
        if found is Verdict.LASTING:
            return None
        if found is Verdict.UNKNOWN and self._in_a_row > TRIES_MAX:
            return None
        self.restarts += 1
        return float(min(BACK_OFF_FIRST_S * 2 ** (self._in_a_row - 1), BACK_OFF_MAX_S))
