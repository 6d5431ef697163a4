"""The process of one task: `python -m ottla.connect.run.host NAME KEEPER READY`.

One thread answers: batches, questions, the order to stop, one after the other. A source task is
polled by another one, also between batches.
"""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from importlib import import_module
from typing import Any, Final

from ottla.connect import plugins, standard
from ottla.connect.run.live import Abandoned, LiveTask, TaskError
from ottla.connect.run.orders import Ask, Failure, Order, Prepare, Report, Stop
from ottla.engine import hosts
from ottla.engine.hosts import Last, Line

log = logging.getLogger("ottla.connect")

GARBAGE_OBJECTS: Final = 100_000
"""New objects between two looks for cycles. Tasks hold many thousand records, which have none:
Python's 700 would have it look through them again and again."""


class Host:
    def __init__(self) -> None:
        self._task: LiveTask | None = None

    def answer(self, message: Any, line: Line) -> Any:
        if isinstance(message, Ask):
            return self._task is None or self._task.has_news(message)
        if isinstance(message, Stop):
            return Last(self.stop())
        if isinstance(message, Prepare):
            kind_of_task(message.source)
            message.worker.find_plugins()
            plugins.discovered()
            return True
        assert isinstance(message, Order), message
        try:
            return self._serve(message, line)
        except Abandoned:
            log.info("nobody waits any more for the answer of task %d", message.task)
            raise

    def stop(self) -> Report | None:
        task, self._task = self._task, None
        return None if task is None else task.stop()

    def _serve(self, order: Order, line: Line) -> Report | Failure:
        try:
            if self._task is None:
                self._task = live_task(order)
            return self._task.serve(order, line)
        except Exception as error:
            if line.says_something():
                raise Abandoned from error
            return failure(error, order.task)


def live_task(order: Order) -> LiveTask:
    standard.attach(order.job.process)
    order.job.worker.find_plugins()
    module, _, name = order.job.task_class.partition(":")
    kind = getattr(import_module(module), name)
    made: LiveTask = kind_of_task(order.job.source)(kind, order)
    return made


def kind_of_task(source: bool) -> Any:
    """Imported late, as it takes a while: who has called is not kept waiting for the line."""
    import pyarrow

    pyarrow.array([None])  # Arrow imports pandas now, and not in the middle of a batch
    gc.freeze()
    gc.set_threshold(GARBAGE_OBJECTS)
    if source:
        from ottla.connect.run.source_task import LiveSource

        return LiveSource
    from ottla.connect.run.sink_task import LiveSink

    return LiveSink


def failure(error: Exception, task: int) -> Failure:
    """A connector's own error fails its task; the broker's trouble is nobody's fault."""
    if isinstance(error, TaskError):
        cause = error.__cause__ or error
        return Failure(task, "".join(traceback.format_exception(cause)))
    return Failure(None, "".join(traceback.format_exception(error)))


if __name__ == "__main__":
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    _, name, keeper, ready = sys.argv
    host = Host()
    try:
        hosts.serve(name, host.answer, keeper=int(keeper), ready=int(ready))
    finally:
        host.stop()
