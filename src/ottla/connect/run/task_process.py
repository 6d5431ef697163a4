"""The process of one task: `python -m ottla.connect.run.task_process NAME KEEPER READY`.

One thread handles requests one after another: batches, questions about work, the stop. A second
thread polls a source task, between batches as well.
"""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from importlib import import_module
from typing import Any, Final

from ottla.connect import plugins, standard_streams
from ottla.connect.run.task_requests import (
    TaskBatchRequest,
    TaskFailure,
    TaskPrepareRequest,
    TaskReport,
    TaskStopRequest,
    TaskWorkRequest,
)
from ottla.connect.run.worker_task import AbandonedBatchError, TaskError, WorkerTask
from ottla.engine import host_process
from ottla.engine.host_process import FinalAnswer, HostConnection

log = logging.getLogger("ottla.connect")

GARBAGE_OBJECTS: Final = 100_000
"""The threshold of Python's cycle collector. A task holds many thousand records, none of them in a
cycle; with the default of 700 the collector would scan them over and over."""


class TaskProcess:
    def __init__(self) -> None:
        self._task: WorkerTask | None = None

    def answer(self, message: Any, connection: HostConnection) -> Any:
        if isinstance(message, TaskWorkRequest):
            return self._task is None or self._task.has_work(message)
        if isinstance(message, TaskStopRequest):
            return FinalAnswer(self.stop())
        if isinstance(message, TaskPrepareRequest):
            worker_task_class(message.source)
            message.worker.find_plugins()
            plugins.discovered()
            return True
        assert isinstance(message, TaskBatchRequest), message
        try:
            return self._serve(message, connection)
        except AbandonedBatchError:
            log.info("Task %d: the batch was abandoned by its caller", message.task)
            raise

    def stop(self) -> TaskReport | None:
        task, self._task = self._task, None
        return None if task is None else task.stop()

    def _serve(
        self, request: TaskBatchRequest, connection: HostConnection
    ) -> TaskReport | TaskFailure:
        try:
            if self._task is None:
                self._task = start_worker_task(request)
            return self._task.serve(request, connection)
        except Exception as error:
            if connection.has_message():
                raise AbandonedBatchError from error
            return task_failure(error, request.task)


def start_worker_task(request: TaskBatchRequest) -> WorkerTask:
    standard_streams.attach_standard_streams(request.job.process)
    request.job.worker.find_plugins()
    module, _, name = request.job.task_class.partition(":")
    kind = getattr(import_module(module), name)
    worker_task: WorkerTask = worker_task_class(request.job.source)(kind, request)
    return worker_task


def worker_task_class(source: bool) -> Any:
    """Imported here because it takes a while: the process must accept connections before."""
    import pyarrow

    pyarrow.array([None])  # Arrow imports pandas now rather than in the middle of a batch
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    if source:
        from ottla.connect.run.worker_source_task import WorkerSourceTask

        return WorkerSourceTask
    from ottla.connect.run.worker_sink_task import WorkerSinkTask

    return WorkerSinkTask


def task_failure(error: Exception, task: int) -> TaskFailure:
    """An error of the connector's code fails its task; any other (a broker's, say) fails the batch
    only, and the supervisor retries it."""
    if isinstance(error, TaskError):
        cause = error.__cause__ or error
        return TaskFailure(task, "".join(traceback.format_exception(cause)))
    return TaskFailure(None, "".join(traceback.format_exception(error)))


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    _, name, owner, ready = sys.argv
    host = TaskProcess()
    try:
        host_process.serve(name, host.answer, owner=int(owner), ready=int(ready))
    finally:
        host.stop()
