"""An aggregate in Python: for where Spark has no native one, as over a table whose rows change."""

from __future__ import annotations

from typing import Any, Protocol

from ottla.rows.errors import SqlError


class Aggregation(Protocol):
    """A state that rows are added to. States are plain lists, dicts and values of rows, and are
    never changed in place: each step gives the next one."""

    def initial(self) -> Any: ...

    def add(self, state: Any, *arguments: Any) -> Any: ...

    def merge(self, first: Any, second: Any) -> Any:
        """Of two sessions that became one; `first` is the earlier."""
        ...

    def undo(self, state: Any, *arguments: Any) -> Any:
        """The state without a row that was added before. Not every aggregate can."""
        ...

    def result(self, state: Any) -> Any: ...


def only_streams(*names: str) -> SqlError:
    """What is said where an aggregate that can't take rows back is used on a table."""
    several = len(names) > 1
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if several else names[0]
    return SqlError(
        f"The aggregation function{'s' if several else ''} {listed} cannot be applied "
        "to a table source, only to a stream source.",
        remedy="A row of a table may change, and then its old value has to be taken back: COUNT, "
        "SUM, AVG, COLLECT_LIST, HISTOGRAM and others in SHOW FUNCTIONS can do that.",
    )
