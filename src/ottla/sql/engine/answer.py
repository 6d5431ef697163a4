"""The rows of a query, on their way to whoever asked."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla.rows.schema import Column, Role
from ottla.rows.types import SqlType

ROWS_PER_TAKE: Final = 500
LIMIT_REACHED: Final = "Limit Reached"
COMPLETED: Final = "Query Completed"


@dataclass(frozen=True, slots=True)
class Row:
    """`deleted`: this key has no row in the table any more; only its key columns have values."""

    values: Sequence[Any]
    deleted: bool = False


class Answer(Protocol):
    """`names` is empty for PRINT, whose rows are lines of text.

    `key_names` are those of the columns that are keys of a table that was pulled from.
    """

    query_id: str
    names: list[str]
    types: list[SqlType]
    key_names: frozenset[str]
    is_push: bool

    @property
    def message(self) -> str:
        """Why it has ended, where there is something to say."""

    def take(self, timeout_s: float) -> list[Row] | None:
        """The next rows; none if none came in this time; None when there are no more."""

    def close(self) -> None:
        """From any thread, more than once: nothing more is read for this answer."""


class Finished:
    """An answer whose rows can all be made at once: a pull query's."""

    is_push = False

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Iterator[Row],
        *,
        message: str = "",
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        self.query_id = new_query_id("query")
        self.names = [each.name for each in columns]
        self.types = [each.type for each in columns]
        self.key_names = frozenset(each.name for each in columns if each.role is Role.KEY)
        self.message = message
        self._rows = rows
        self._closed = closed

    def take(self, timeout_s: float) -> list[Row] | None:
        del timeout_s
        taken: list[Row] = []
        for each in self._rows:
            taken.append(each)
            if len(taken) >= ROWS_PER_TAKE:
                break
        return taken or None

    def close(self) -> None:
        self._closed()


def new_query_id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"
