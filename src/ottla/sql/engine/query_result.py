"""Query results: rows on their way to the client."""

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
    """`deleted`: a tombstone; only the key columns have values."""

    values: Sequence[Any]
    deleted: bool = False


class QueryResult(Protocol):
    """The result of a push query, a pull query or PRINT, read row by row.

    `names` is empty for PRINT, whose rows are lines of text. `key_names` are the key columns of the
    table that a pull query reads.
    """

    query_id: str
    names: list[str]
    types: list[SqlType]
    key_names: frozenset[str]
    is_push: bool

    @property
    def message(self) -> str:
        """Why the query has ended; empty if there is nothing to say."""

    def take(self, timeout_s: float) -> list[Row] | None:
        """The next rows; an empty list after the timeout; None at the end."""

    def close(self) -> None:
        """Stop the query. Any thread may call this, more than once."""


class BatchedQueryResult:
    """A result whose rows exist when the query returns: that of a pull query."""

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
        self.names = [column.name for column in columns]
        self.types = [column.type for column in columns]
        self.key_names = frozenset(column.name for column in columns if column.role is Role.KEY)
        self.message = message
        self._rows = rows
        self._closed = closed

    def take(self, timeout_s: float) -> list[Row] | None:
        del timeout_s
        taken: list[Row] = []
        for row in self._rows:
            taken.append(row)
            if len(taken) >= ROWS_PER_TAKE:
                break
        return taken or None

    def close(self) -> None:
        self._closed()


def new_query_id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"
