"""What WorkerSourceTask and WorkerSinkTask have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ottla.connect.run.task_requests import TaskBatchRequest, TaskReport, TaskWorkRequest
from ottla.engine.host_process import HostConnection, HostDisconnect


class AbandonedBatchError(HostDisconnect):
    """Spark has cancelled the batch, or the connector is being stopped."""


class TaskError(Exception):
    """The connector's code, a converter or a transform raised `__cause__`."""


@contextmanager
def task_errors() -> Iterator[None]:
    """Wraps calls of the connector's code: only what it raises fails the task."""
    try:
        yield
    except (AbandonedBatchError, TaskError):
        raise
    except Exception as error:
        raise TaskError(str(error)) from error


def check_caller_waits(connection: HostConnection) -> None:
    """The caller of a batch sends nothing more, so readable input means that it hung up."""
    if connection.has_message():
        raise AbandonedBatchError


class WorkerTask(Protocol):
    """A task, with its state from batch to batch."""

    def serve(self, request: TaskBatchRequest, connection: HostConnection) -> TaskReport: ...

    def has_work(self, request: TaskWorkRequest) -> bool: ...

    def stop(self) -> TaskReport | None:
        """Returns a report if there are offsets left to commit."""
