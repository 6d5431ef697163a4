"""Planner processes of Spark, forked from one that has imported everything.

Spark's local workers are forked by a daemon; the process that plans a streaming query's batches is
started anew for each query. `python()` is what Spark takes for its interpreter: a script of a few
lines, which sends just these processes to `planner_start.py`. The first of them starts this
server. It lives for as long as the JVM does, and forks one process for each query.

    OTTLA_SPARK_PLANNERS=off     Spark starts plain Python
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import runpy
import select
import shlex
import signal
import socket
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Final, NoReturn

from ottla.spark import archive, planner_start
from ottla.spark.planner_start import SIZE, address, peer_user

SWITCH: Final = "OTTLA_SPARK_PLANNERS"
RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
# It looks at a query with state once, and tells the world of each step.
STATE_RUNNER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"
MODULES: Final = (RUNNER, STATE_RUNNER, "ottla.spark.source", "ottla.spark.sql.schema")
FIRST_S: Final = 3.0  # the planner for which the server was started comes first
WAITING_MAX: Final = 64
# Before numpy is imported: its threads would not survive a fork.
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def python() -> str:
    """The interpreter for Spark's processes on this machine: ours, by a script where that helps."""
    if not switched_on():
        return sys.executable
    text = script()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = archive.directory() / f"python-{name}"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_name(f"{path.name}-{os.getpid()}")
            half.write_text(text)
            half.chmod(0o755)
            half.rename(path)
        return str(path) if os.access(path, os.X_OK) else sys.executable
    except OSError:
        return sys.executable


def switched_on() -> bool:
    wanted = os.environ.get(SWITCH, "on").lower() not in ("off", "0", "false", "no")
    return wanted and hasattr(os, "pidfd_open") and hasattr(socket, "SO_PEERCRED")


def script() -> str:
    ours = shlex.quote(sys.executable)
    start = shlex.quote(str(Path(planner_start.__file__).resolve()))
    warm = f'{ours} -I -S {start} {ours} "$@"'
    return (
        "#!/bin/sh\n"
        f'if [ "$2" = {RUNNER} ]; then exec {warm}; fi\n'
        f'if [ "$2" = {STATE_RUNNER} ]; then exec {warm} >/dev/null; fi\n'
        f'exec {ours} "$@"\n'
    )


def serve(jvm: int, *, modules: tuple[str, ...] = MODULES, wait_s: float = FIRST_S) -> None:
    """Until the JVM is gone. A second server for the same JVM finds the address taken, and ends."""
    alive = os.pidfd_open(jvm)
    time.sleep(wait_s)
    os.environ.update(ONE_THREAD)
    for each in modules:
        importlib.import_module(each)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.suppress(OSError):
        listening.bind(address(jvm))
        listening.listen(WAITING_MAX)
        while not _is_over(alive, listening):
            line, _ = listening.accept()
            with line:
                if peer_user(line) == os.getuid() and os.fork() == 0:
                    listening.close()
                    become(line)


def _is_over(alive: int, listening: socket.socket) -> bool:
    """Wait for somebody to call, or for the JVM to end."""
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.register(listening, select.POLLIN)
    return any(which == alive for which, _ in poll.poll())


def become(line: socket.socket) -> NoReturn:
    """The process that somebody wants: their files, environment and directory, and their module."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words = _take(line)
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    random.seed()
    code: object = 0
    try:
        warnings.simplefilter("ignore", RuntimeWarning)  # runpy's, of what is imported already
        assert words[0] == "-m", words
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _take(line: socket.socket) -> list[str]:
    head, files, _, _ = socket.recv_fds(line, SIZE.size, 3)
    (size,) = SIZE.unpack(head)
    body = b""
    while len(body) < size:
        body += line.recv(size - len(body)) or _gone()
    wish = json.loads(body)
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.environ.clear()
    os.environ.update(wish["environment"])
    os.chdir(wish["directory"])
    words: list[str] = wish["words"]
    return words


def _gone() -> NoReturn:
    os._exit(1)


def _end_with(line: socket.socket) -> None:
    """Spark ends a planner by ending the process that it has started: then we go as well."""
    with contextlib.suppress(OSError):
        line.recv(1)
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
