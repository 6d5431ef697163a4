"""The hosts in which tasks live, from the side of the driver and of Spark's workers.

A task must outlive Spark's batches: it has connections, files, a place where it is. So each task
has a process of its own (running/hosts.py) on the machine where Spark has put it, and Spark's
worker hands on what that one says. It is started by the first batch, and ends with the connector.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from ottla.connect.run.orders import Ask, Failure, Job, Order, Prepare, Report, Rows, Stop
from ottla.engine.hosts import HungUp, Line, called, keeper, reached, spawned

HOST: Final = "ottla.connect.run.host"
STOP_S: Final = 5.0  # task.shutdown.graceful.timeout.ms
ANSWER_S_MAX: Final = 5.0
RUN_LENGTH: Final = 16


def serve(order: Order) -> Iterator[Rows | Report | Failure]:
    """One batch of a task, by its host; the last answer is a report or a failure."""
    name = name_of(order.job.run, order.task)
    jvm = keeper()
    with reached(name, spawned(HOST, name, str(jvm), jvm=jvm)) as line:
        answer = line.ask(order)
        while isinstance(answer, Rows):
            yield answer
            answer = line.receive()
        yield answer


def prepare(job: Job, jvm: int) -> threading.Thread:
    """At the driver, of Spark on this machine: hosts start while Spark plans the first batch."""

    def work() -> None:
        for task, _ in job.tasks:
            name = name_of(job.run, task)
            start = spawned(HOST, name, str(jvm), jvm=jvm)
            with suppress(HungUp), reached(name, start) as line:
                line.send(Prepare(job.source, job.worker))

    thread = threading.Thread(target=work, name=f"hosts of {job.name}", daemon=True)
    thread.start()
    return thread


def has_news(run: str, task: int, ask: Ask) -> bool:
    """Whether a batch would have something to do; one that has no host has to get one."""
    line = called(name_of(run, task))
    if line is None:
        return True
    with line, suppress(HungUp):
        line.send(ask)
        if line.says_something(ask.wait_s + ANSWER_S_MAX):
            return bool(line.receive())
    return True


def stop(run: str, tasks: Sequence[int], *, wait_s: float = STOP_S) -> list[Report]:
    """All at once; who does not stop in time is killed. Some have a last report."""
    found = [line for task in tasks if (line := called(name_of(run, task))) is not None]
    for line in found:
        with suppress(HungUp):
            line.send(Stop())
    deadline = time.monotonic() + wait_s
    reports = [_last_word(each, deadline) for each in found]
    return [each for each in reports if isinstance(each, Report)]


def name_of(run: str, task: int) -> str:
    return f"connect-{run[:RUN_LENGTH]}-{task}"


def _last_word(line: Line, deadline: float) -> Report | None:
    with line, suppress(HungUp):
        if line.says_something(max(deadline - time.monotonic(), 0.0)):
            report: Report | None = line.receive()
            return report
        os.kill(line.peer, signal.SIGKILL)
    return None
