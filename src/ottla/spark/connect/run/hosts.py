"""Processes in which tasks live, found by a socket in a folder that only this user can open.

A task must outlive Spark's batches: it has connections, files, a place where it is. Spark's own
Python workers can't keep it, as Spark gives the next batch to any of them. So each task has a
process of its own on the machine where Spark has put it, and Spark's worker hands on what that
one says. It is started by the first batch, and ends with the connector or with Spark's JVM.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from ottla.spark.connect.run.orders import Ask, Failure, Order, Report, Rows, Stop

START_S_MAX: Final = 60.0
LOOK_S: Final = 0.01
STOP_S: Final = 5.0  # task.shutdown.graceful.timeout.ms
ANSWER_S_MAX: Final = 5.0
PARENTS_MAX: Final = 4
BASE_LENGTH_MAX: Final = 50  # the path of a socket has 107 characters at most
RUN_LENGTH: Final = 16


class HostLost(ConnectionError):
    """The process of a task is gone, and what it was doing with it."""


def serve(order: Order) -> Iterator[Rows | Report | Failure]:
    """One batch of a task, by its host; the last answer is a report or a failure."""
    with connected(order.job.run, order.task) as line:
        try:
            line.send(order)
            while True:
                answer = line.recv()
                yield answer
                if not isinstance(answer, Rows):
                    return
        except (EOFError, OSError) as error:
            raise HostLost(
                f"ConnectionError: the process of task {order.task} is gone: {error!r}"
            ) from None


def has_news(run: str, task: int, ask: Ask) -> bool:
    """Whether a batch would have something to do; one that has no host has to get one."""
    with suppress(EOFError, OSError), Connection(_call(place(run, task)).detach()) as line:
        line.send(ask)
        if line.poll(ask.wait_s + ANSWER_S_MAX):
            return bool(line.recv())
    return True


def stop(run: str, tasks: Sequence[int], *, wait_s: float = STOP_S) -> list[Report]:
    """All at once; who does not stop in time is killed. Some have a last report."""
    reports: list[Report] = []
    lines: dict[int, Connection[Any, Any]] = {}
    for task in tasks:
        with suppress(OSError):
            lines[task] = Connection(_call(place(run, task)).detach())
            lines[task].send(Stop())
    deadline = time.monotonic() + wait_s
    for task, line in lines.items():
        with suppress(EOFError, OSError), line:
            if line.poll(max(deadline - time.monotonic(), 0.0)):
                report = line.recv()
                if isinstance(report, Report):
                    reports.append(report)
                continue
        _kill(place(run, task))
    return reports


@contextmanager
def connected(run: str, task: int) -> Iterator[Connection[Any, Any]]:
    where = place(run, task)
    try:
        line = _call(where)
    except OSError:
        line = _started(where)
    with Connection(line.detach()) as connection:
        yield connection


def place(run: str, task: int) -> Path:
    base = tempfile.gettempdir()
    folder = Path(base if len(base) <= BASE_LENGTH_MAX else "/tmp") / f"ottla-connect-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else: remove it")
    return folder / f"{run[:RUN_LENGTH]}-{task}"


def _call(where: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(str(where))
    except BaseException:
        line.close()
        raise
    return line


def _started(where: Path) -> socket.socket:
    """Two attempts of one task may come here at once: the second finds what the first started."""
    with where.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError):
            return _call(where)
        words = [sys.executable, "-m", "ottla.spark.connect.run.host", str(where), str(_jvm())]
        nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        process = os.posix_spawn(
            sys.executable, words, os.environ, file_actions=nothing, setsid=True
        )
        deadline = time.monotonic() + START_S_MAX
        ended = (0, 0)
        while not ended[0] and time.monotonic() < deadline:
            with suppress(OSError):
                return _call(where)
            time.sleep(LOOK_S)
            ended = os.waitpid(process, os.WNOHANG)
    raise HostLost(f"ConnectionError: no process for a task could be started: {ended[1]}")


def _jvm() -> int:
    """Spark's JVM, some generations up: the host ends with it."""
    process = os.getppid()
    for _ in range(PARENTS_MAX):
        try:
            words = Path(f"/proc/{process}/stat").read_text().rpartition(")")
        except OSError:
            break
        if words[0].endswith("(java"):
            return process
        process = int(words[2].split()[1])
    return os.getppid()


def _kill(where: Path) -> None:
    with suppress(OSError, ValueError):
        process = int(where.with_suffix(".pid").read_text())
        if str(where) in Path(f"/proc/{process}/cmdline").read_text():
            os.kill(process, signal.SIGKILL)
    clear(where)


def clear(where: Path) -> None:
    for each in (where, where.with_suffix(".pid"), where.with_suffix(".lock")):
        each.unlink(missing_ok=True)
