"""The process of one task: `python -m ottla.spark.connect.run.host SOCKET JVM`.

One thread answers: batches, questions, the order to stop, one after the other. A source task is
polled by another one, also between batches.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from ottla.spark.connect.run import hosts
from ottla.spark.connect.run.live import Abandoned, Line, LiveTask, TaskError
from ottla.spark.connect.run.orders import Ask, Failure, Order, Report, Stop

log = logging.getLogger("ottla.connect")

LOOK_S: Final = 1.0
LEASE_S: Final = 600.0
"""A host that nobody has asked for so long is of a connector that has moved to another machine."""
CALLS_MAX: Final = 16


class Host:
    def __init__(self, where: Path, jvm: int) -> None:
        self._where = where
        self._jvm = jvm
        self._task: LiveTask | None = None
        self._number = 0
        self._asked_s = time.monotonic()
        self._left = False

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX) as listening:
            self._where.unlink(missing_ok=True)
            self._where.with_suffix(".pid").write_text(str(os.getpid()))
            listening.bind(str(self._where))
            listening.listen(CALLS_MAX)
            listening.settimeout(LOOK_S)
            try:
                while self._is_needed():
                    with suppress(TimeoutError):
                        line, _ = listening.accept()
                        line.setblocking(True)
                        with Connection(line.detach()) as connection:
                            if not self._answer(connection):
                                break
            finally:
                self._stop()
                self._leave()

    def _is_needed(self) -> bool:
        if time.monotonic() - self._asked_s > LEASE_S:
            return False
        try:
            os.kill(self._jvm, 0)
        except ProcessLookupError:
            return False
        return True

    def _answer(self, connection: Connection[Any, Any]) -> bool:
        """False: that was the last one."""
        try:
            message = connection.recv()
            self._asked_s = time.monotonic()
            if isinstance(message, Order):
                connection.send(self._serve(message, Line(connection)))
            elif isinstance(message, Ask):
                connection.send(self._task is None or self._task.has_news(message))
            elif isinstance(message, Stop):
                report = self._stop()
                self._leave()
                connection.send(report)
                return False
        except (EOFError, OSError, Abandoned):
            log.info("nobody waits any more for the answer of task %d", self._number)
        return True

    def _serve(self, order: Order, line: Line) -> Report | Failure:
        self._number = order.task
        try:
            if self._task is None:
                self._task = live_task(order)
            return self._task.serve(order, line)
        except Exception as error:
            if line.gone:
                raise Abandoned from error
            return failure(error, order.task)

    def _leave(self) -> None:
        """Before the last answer: who asks next must not find us, but may have started another."""
        if not self._left:
            self._left = True
            hosts.clear(self._where)

    def _stop(self) -> Report | None:
        task, self._task = self._task, None
        return None if task is None else task.stop()


def live_task(order: Order) -> LiveTask:
    order.job.worker.find_plugins()
    module, _, name = order.job.task_class.partition(":")
    kind = getattr(import_module(module), name)
    if order.job.source:
        from ottla.spark.connect.run.source_task import LiveSource

        return LiveSource(kind, order)
    from ottla.spark.connect.run.sink_task import LiveSink

    return LiveSink(kind, order)


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
    Host(Path(sys.argv[1]), int(sys.argv[2])).run()
