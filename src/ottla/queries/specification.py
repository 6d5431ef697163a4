"""QuerySpecification: what the supervisor has to know of a query that it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.queries.failures import QueryFailure, failure_of
from ottla.queries.lifecycle import Recovery, Report
from ottla.queries.query_run import QueryRun

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Cancelled = Callable[[], bool]


class QuerySpecification:
    """A query that Spark runs as one streaming query, which `begin` starts.

    Queries that are more than that say how they start, what a failure means and what to do before
    they are given up. `start`, `failed` and `recover` may wait; `reported` must not.
    """

    def __init__(self, name: str, begin: Callable[[], StreamingQuery] | None = None) -> None:
        self.name = name
        self._streaming_query = begin

    def start(self, cancelled: Cancelled) -> QueryRun | None:
        """None: there is nothing to run now. Whoever waits asks `cancelled` now and then."""
        assert self._streaming_query is not None
        return QueryRun(self._streaming_query())

    def failed(self, error: Exception) -> QueryFailure:
        """A run, or its start, has ended with this error."""
        return failure_of(error)

    def recover(self, failure: QueryFailure) -> Recovery:
        """The query is about to be given up: can the cause be removed?"""
        return Recovery.NONE

    def reported(self, report: Report) -> None:
        """It is in another state."""
