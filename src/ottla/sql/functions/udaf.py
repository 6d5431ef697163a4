"""Udaf: an aggregate function in Python, as used on tables, whose rows change."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.rows.errors import SqlError


class Udaf(Protocol):
    """An aggregate function on a state. States are plain lists, dicts and values, and are never
    modified: each method returns the next state."""

    def initial(self) -> Any: ...

    def add(self, state: Any, *arguments: Any) -> Any: ...

    def merge(self, first: Any, second: Any) -> Any:
        """Merge the states of two sessions; `first` is the earlier one."""
        ...

    def undo(self, state: Any, *arguments: Any) -> Any:
        """Remove a row that was added before, which not all aggregates support."""
        ...

    def result(self, state: Any) -> Any: ...


def only_streams(*names: str) -> SqlError:
    """The error for aggregates on a table that don't support `undo`."""
    several = len(names) > 1
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if several else names[0]
    return SqlError(
        f"The aggregation function{'s' if several else ''} {listed} cannot be applied "
        "to a table source, only to a stream source.",
        remedy="When a row of a table changes, its old value must be subtracted: COUNT, SUM, AVG, "
        "COLLECT_LIST, HISTOGRAM and some others support that.",
    )
