"""Spark's Python processes, forked from one that has imported everything.

Spark starts one process for each streaming query, which plans its batches, and a daemon for each
kind of worker; each worker then imports PySpark, Arrow and pandas by itself: a second of CPU, six
or eight times in the start of one query. `python()` is what Spark takes for its interpreter: a
script of a few lines, which sends these processes to `planner_start.py`. This server is started
beside the JVM, imports everything while that starts, and lives for as long as it does. What it
forks shares its memory, too. The processes where tasks of connectors live come from here as well.

    OTTLA_SPARK_PLANNERS=off     Spark starts plain Python
"""

from __future__ import annotations

import contextlib
import gc
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
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from ottla.spark import archive, planner_start
from ottla.spark.planner_start import JVM, SERVE, SIZE, TAKEN, address, peer_user

SWITCH: Final = "OTTLA_SPARK_PLANNERS"
RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
# It looks at a query with state once, and tells the world of each step.
STATE_RUNNER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"
DAEMON: Final = "pyspark.daemon"
MODULES: Final = (
    RUNNER,
    STATE_RUNNER,
    DAEMON,
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pandas",
    "ottla.spark.source",
    "ottla.spark.reading",
    "ottla.spark.rows",
    "ottla.spark.work",
    "ottla.spark.sink.writers",
    "ottla.rows.schema",
    "ottla.engine.work",
    "ottla.engine.task_host",
)
CONNECT: Final = "connect"
OF_CONNECT: Final = (
    "ottla.connect.run.planner",
    "ottla.connect.run.host",
    "ottla.connect.run.source_task",
    "ottla.connect.run.sink_task",
    "ottla.connect.converters.header",
    "ottla.connect.converters.json",
    "ottla.connect.converters.primitive",
)
"""For a driver that runs connectors: it has the first of them itself."""
FILES_MAX: Final = 8
START_S_MAX: Final = 10.0
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
    warm = f'exec {ours} -I -S {start} {ours} "$@"'
    return (
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"{RUNNER} | {DAEMON}) {warm} ;;\n"
        f"{STATE_RUNNER}) {warm} >/dev/null ;;\n"
        "esac\n"
        f'exec {ours} "$@"\n'
    )


def start(jvm: int, environment: Mapping[str, str]) -> None:
    """The server for a JVM, as nobody's child. Without one Spark starts plain Python."""
    if not switched_on():
        return
    ours = sys.executable
    more = [CONNECT] if OF_CONNECT[0] in sys.modules else []
    command = [ours, "-I", "-S", planner_start.__file__, ours, SERVE, str(jvm), *more]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, env=dict(environment), timeout=START_S_MAX, check=False)


def serve(jvm: int, *, modules: tuple[str, ...] = MODULES) -> None:
    """Until the JVM is gone. Who calls before everything is imported waits for it."""
    alive = os.pidfd_open(jvm)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.suppress(OSError):
        listening.bind(address(jvm))
        listening.listen(WAITING_MAX)
        _warm_up(modules)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while not _is_over(alive, listening):
            line, _ = listening.accept()
            with line:
                if peer_user(line) == os.getuid() and os.fork() == 0:
                    listening.close()
                    become(line, jvm)


def _warm_up(modules: tuple[str, ...]) -> None:
    os.environ.update(ONE_THREAD)
    for each in modules:
        importlib.import_module(each)
    if "numpy" in sys.modules:
        import numpy as np

        # A worker of Spark's imports numpy by itself, and so has random numbers of its own.
        os.register_at_fork(after_in_child=np.random.seed)
    # Workers look for garbage after each task. Among all that was imported there is none: 40 ms
    # each time, and pages that would not be shared any more.
    gc.collect()
    gc.freeze()


def _is_over(alive: int, listening: socket.socket) -> bool:
    """Wait for somebody to call, or for the JVM to end."""
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.register(listening, select.POLLIN)
    return any(which == alive for which, _ in poll.poll())


def become(line: socket.socket, jvm: int) -> NoReturn:
    """The process that somebody wants: their files, environment and directory, and their module."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    words, alone = _take(line)
    os.environ[JVM] = str(jvm)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(words[1])  # so that ps and top can tell them apart
    line.sendall(TAKEN)
    if alone:
        line.close()
        os.setsid()
    elif words[1] == DAEMON:
        # It ends with its standard input, and forks: no thread, and the line is its own.
        os.register_at_fork(after_in_child=line.close)
    else:
        threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    random.seed()
    code: object = 0
    try:
        # What is imported already: said by runpy. The warnings of others are none of our business.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
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


def _take(line: socket.socket) -> tuple[list[str], bool]:
    """What is to run, and whether it stays when who has asked for it is gone."""
    head, files, _, _ = socket.recv_fds(line, SIZE.size, FILES_MAX)
    (size,) = SIZE.unpack(head)
    body = b""
    while len(body) < size:
        body += line.recv(size - len(body)) or _gone()
    wish = json.loads(body)
    for number, each in enumerate(files[:3]):
        os.dup2(each, number)
        os.close(each)
    os.environ.clear()
    os.environ.update(wish["environment"])
    os.chdir(wish["directory"])
    _as_started()
    return [*wish["words"], *map(str, files[3:])], wish["alone"]


def _as_started() -> None:
    """What Python takes from its environment when it starts: where modules are, and that a line is
    written when it ends."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    paths = dict.fromkeys(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[1:1] = [each for each in paths if each not in ("", *sys.path) and not _is_spark(each)]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _is_spark(path: str) -> bool:
    """Spark names its jar as a place for modules, and has none in there. Python would read the
    names of 6,000 classes for it, and again when Spark has it look anew: 80 ms in each process."""
    return Path(path).name.startswith("spark-core_") and path.endswith(".jar")


def _gone() -> NoReturn:
    os._exit(1)


def _end_with(line: socket.socket) -> None:
    """Spark ends a planner by ending the process that it has started: then we go as well."""
    with contextlib.suppress(OSError):
        line.recv(1)
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), modules=MODULES + OF_CONNECT * (CONNECT in sys.argv))
