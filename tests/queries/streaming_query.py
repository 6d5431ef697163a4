"""Spark's view of a streaming query, for tests without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ottla.queries.specification import QuerySpecification


class JavaThread:
    def __init__(self) -> None:
        self.alive = True

    def isAlive(self) -> bool:  # noqa: N802 (Java's name)
        return self.alive


class StreamingQuery:
    """Its thread is reached as in Spark."""

    status: dict[str, bool] = {"isTriggerActive": False}  # noqa: RUF012

    def __init__(self) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self.thread = JavaThread()
        self.lastProgress: dict[str, Any] | None = None
        self.gone = False
        self._jsq = self

    @property
    def name(self) -> str:
        if self.gone:
            raise ConnectionRefusedError("the JVM is asked even for this")
        return "q"

    def streamingQuery(self) -> StreamingQuery:  # noqa: N802
        return self

    def queryExecutionThread(self) -> JavaThread:  # noqa: N802
        return self.thread

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        if self.gone:
            raise ConnectionRefusedError("no JVM")
        self.isActive = False

    def fail(self, error: Exception) -> None:
        self.error, self.isActive = error, False

    def finish_batch(self) -> None:
        self.lastProgress = {"batchId": 1, "durationMs": {"addBatch": 5}}


def specification(begin: Callable[[], StreamingQuery]) -> QuerySpecification:
    return QuerySpecification("q", cast(Any, begin))
