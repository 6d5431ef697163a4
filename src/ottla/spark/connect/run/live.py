"""What source and sink tasks have in common where they live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol

from ottla.spark.connect.run.orders import Ask, Order, Report, Rows


class Abandoned(Exception):
    """Spark has given up the batch, or the connector is being stopped."""


class TaskError(Exception):
    """What a connector's own code raised, or its converters and transforms: it is the cause."""


@contextmanager
def blamed() -> Iterator[None]:
    """Around calls of a connector's code: what it raises fails the task, and nothing else."""
    try:
        yield
    except (Abandoned, TaskError):
        raise
    except Exception as error:
        raise TaskError(str(error)) from error


class Line:
    """To who has ordered a batch."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection

    def send(self, rows: Rows) -> None:
        self._connection.send(rows)

    @property
    def gone(self) -> bool:
        """Nobody waits for this batch any more."""
        return self._connection.poll(0)


class LiveTask(Protocol):
    """A task with its state, from batch to batch."""

    def serve(self, order: Order, line: Line) -> Report: ...

    def has_news(self, ask: Ask) -> bool: ...

    def stop(self) -> Report | None:
        """With a report where something may still be committed."""
