"""QuerySpecification: what the supervisor needs to know of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.queries.failures import QueryFailure, failure_of
from ottla.queries.lifecycle import Recovery, StatusReport
from ottla.queries.query_run import QueryRun

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Cancelled = Callable[[], bool]


class QuerySpecification:
    """A query that Spark runs as one streaming query, which `begin` starts.

    Subclasses override how a query starts, what a failure means and how to recover from it.
    `start`, `failed` and `recover` may block; `reported` must not.
    """

    def __init__(self, name: str, begin: Callable[[], StreamingQuery] | None = None) -> None:
        self.name = name
        self._streaming_query = begin

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        """None: there is nothing to run now. A start that waits must poll `cancelled`."""
        assert self._streaming_query is not None
        return QueryRun(self._streaming_query())

    def failed(self, error: Exception) -> QueryFailure:
        """Classifies the error that ended a run or its start."""
        return failure_of(error)

    def recover(self, failure: QueryFailure) -> Recovery:
        """Called before the query fails for good: removes the cause if it can."""
        return Recovery.NONE

    def reported(self, report: StatusReport) -> None:
        """Called on every state change."""
