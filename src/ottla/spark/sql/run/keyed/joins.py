"""Joins with tables: what one event changes, and what comes out of it.

A machine holds what it knows of one key in a state that it alone understands; `apply` takes the
next event and gives the changes it makes. A Change without rows on a side has null there; a deleted
one is a tombstone in the table that is the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ottla.spark.sql.run.keyed.order import Event
from ottla.spark.sql.syntax.statements import JoinKind

LEFT: Final = 0
RIGHT: Final = 1

Values = Any
Known = tuple[int, Values]
"""A table's row for this key, and when it was written."""
Pairs = dict[int, Known]


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the result, or (deleted) that there is none any more."""

    left: Values | None
    right: Values | None
    time_ms: int
    deleted: bool = False


class StreamTableJoin:
    """Each row of the stream (left) meets what the table (right) has at that time."""

    def __init__(self, kind: JoinKind) -> None:
        assert kind in (JoinKind.INNER, JoinKind.LEFT)
        self._kind = kind

    def apply(self, state: Pairs, event: Event) -> Iterator[Change]:
        if event.side == RIGHT:
            remember(state, event)
            return
        known = state.get(RIGHT)
        if known is not None:
            yield Change(event.row, known[1], event.time_ms)
        elif self._kind is JoinKind.LEFT:
            yield Change(event.row, None, event.time_ms)


class TableTableJoin:
    """Both sides are kept; the result is a table again, as new as the newer of the two rows."""

    def __init__(self, kind: JoinKind) -> None:
        self._kind = kind

    def apply(self, state: Pairs, event: Event) -> Iterator[Change]:
        before = self._result(state)
        time_ms = max(event.time_ms, *(known[0] for known in state.values()), -1)
        remember(state, event)
        after = self._result(state)
        if after is not None:
            yield after
        elif before is not None:
            yield Change(None, None, time_ms, deleted=True)

    def _result(self, state: Pairs) -> Change | None:
        left, right = state.get(LEFT), state.get(RIGHT)
        if not self._matches(left is not None, right is not None):
            return None
        time_ms = max(known[0] for known in state.values())
        return Change(left and left[1], right and right[1], time_ms)

    def _matches(self, left: bool, right: bool) -> bool:
        match self._kind:
            case JoinKind.INNER:
                return left and right
            case JoinKind.LEFT:
                return left
            case JoinKind.RIGHT:
                return right
            case JoinKind.OUTER:
                return left or right


def remember(state: Pairs, event: Event) -> None:
    """A table's event: the row of its side as it is now."""
    if event.deleted or event.row is None:
        state.pop(event.side, None)
    else:
        state[event.side] = (event.time_ms, event.row)
