"""Calls to the processes that tasks live in, from the driver and from Spark's workers.

A task outlives Spark's batches, because it holds connections, files and positions. So each task has
its own process (task_process.py) on the machine where Spark scheduled it, and Spark's worker only
passes its answers on. The first batch starts the process; it ends with the connector.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from ottla.connect.run.task_requests import (
    ConnectorJob,
    PackedRows,
    TaskBatchRequest,
    TaskFailure,
    TaskPrepareRequest,
    TaskReport,
    TaskStopRequest,
    TaskWorkRequest,
)
from ottla.engine.host_process import (
    HostConnection,
    HostDisconnect,
    connect_if_running,
    connect_or_start,
    owner_pid,
    spawn_host,
)

REMOTE_TASK_MODULE: Final = "ottla.connect.run.task_process"
STOP_S: Final = 5.0  # task.shutdown.graceful.timeout.ms
ANSWER_S_MAX: Final = 5.0
RUN_LENGTH: Final = 16


def run_batch(request: TaskBatchRequest) -> Iterator[PackedRows | TaskReport | TaskFailure]:
    """Run one batch in the task's process; the last answer is a report or a failure."""
    name = remote_task_name(request.job.run, request.task)
    jvm = owner_pid()
    with connect_or_start(
        name, spawn_host(REMOTE_TASK_MODULE, name, str(jvm), jvm=jvm)
    ) as connection:
        answer = connection.ask(request)
        while isinstance(answer, PackedRows):
            yield answer
            answer = connection.receive()
        yield answer


def prepare_processes(job: ConnectorJob, jvm: int) -> threading.Thread:
    """For Spark on this machine: start the processes while Spark plans the first batch."""

    def work() -> None:
        for task, _ in job.tasks:
            name = remote_task_name(job.run, task)
            start = spawn_host(REMOTE_TASK_MODULE, name, str(jvm), jvm=jvm)
            with suppress(HostDisconnect), connect_or_start(name, start) as connection:
                connection.send(TaskPrepareRequest(job.source, job.worker))

    thread = threading.Thread(target=work, name=f"hosts of {job.name}", daemon=True)
    thread.start()
    return thread


def has_work(run: str, task: int, request: TaskWorkRequest) -> bool:
    """True if a batch would have something to do. A task without a process needs one, so: True."""
    connection = connect_if_running(remote_task_name(run, task))
    if connection is None:
        return True
    with connection, suppress(HostDisconnect):
        connection.send(request)
        if connection.has_message(request.wait_s + ANSWER_S_MAX):
            return bool(connection.receive())
    return True


def stop_tasks(run: str, tasks: Sequence[int], *, wait_s: float = STOP_S) -> list[TaskReport]:
    """Stop all at once, and kill those that miss the deadline. Returns their last reports."""
    found = [
        connection
        for task in tasks
        if (connection := connect_if_running(remote_task_name(run, task))) is not None
    ]
    for connection in found:
        with suppress(HostDisconnect):
            connection.send(TaskStopRequest())
    deadline = time.monotonic() + wait_s
    reports = [_last_report(connection, deadline) for connection in found]
    return [report for report in reports if isinstance(report, TaskReport)]


def remote_task_name(run: str, task: int) -> str:
    return f"connect-{run[:RUN_LENGTH]}-{task}"


def _last_report(connection: HostConnection, deadline: float) -> TaskReport | None:
    with connection, suppress(HostDisconnect):
        if connection.has_message(max(deadline - time.monotonic(), 0.0)):
            report: TaskReport | None = connection.receive()
            return report
        os.kill(connection.peer, signal.SIGKILL)
    return None
