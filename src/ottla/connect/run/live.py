"""What source and sink tasks have in common where they live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.connect.run.orders import Ask, Order, Report
from ottla.engine.hosts import HungUp, Line


class Abandoned(HungUp):
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


def check_that_somebody_waits(line: Line) -> None:
    """Who has ordered a batch says nothing more: it has hung up."""
    if line.says_something():
        raise Abandoned


class LiveTask(Protocol):
    """A task with its state, from batch to batch."""

    def serve(self, order: Order, line: Line) -> Report: ...

    def has_news(self, ask: Ask) -> bool: ...

    def stop(self) -> Report | None:
        """With a report where something may still be committed."""
