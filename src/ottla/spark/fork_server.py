"""Forks Spark's Python processes from a server that has imported everything.

Spark starts a process for each streaming query, which plans its batches, and a daemon for each kind
of worker; each of them imports PySpark, Arrow and pandas: a second of CPU, six or eight times at
the start of one query. `python()` returns a script that Spark runs as its interpreter and that
passes these processes to `fork_server_start.py`. The server starts beside the JVM, imports
everything while that starts, and exits with it. Forked processes also share its memory. The hosts
of connector tasks are forked here, too.

    OTTLA_SPARK_FORK_SERVER=off     Spark starts plain Python processes
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

from ottla.spark import class_data_archive, fork_server_start
from ottla.spark.fork_server_start import JVM, SERVE, SIZE, TAKEN, address, peer_user

SWITCH: Final = "OTTLA_SPARK_FORK_SERVER"
RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
# It inspects a stateful query once, and prints every step.
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
    "ottla.spark.chunks",
    "ottla.spark.rows",
    "ottla.spark.chunk_processor",
    "ottla.spark.sink.writers",
    "ottla.rows.schema",
    "ottla.engine.subtopology_processor",
    "ottla.engine.task_host",
)
CONNECT: Final = "connect"
OF_CONNECT: Final = (
    "ottla.connect.run.datasource",
    "ottla.connect.run.task_process",
    "ottla.connect.run.worker_source_task",
    "ottla.connect.run.worker_sink_task",
    "ottla.connect.converters.header",
    "ottla.connect.converters.json",
    "ottla.connect.converters.string_converter",
    "ottla.connect.converters.byte_array_converter",
)
"""For a driver that runs connectors, which has imported the first of them itself."""
FILES_MAX: Final = 8
START_S_MAX: Final = 10.0
WAITING_MAX: Final = 64
# Set before numpy is imported, because its threads would not survive a fork.
ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def python() -> str:
    """The interpreter for Spark's processes on this machine: the script, or plain Python."""
    if not switched_on():
        return sys.executable
    text = script()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    path = class_data_archive.directory() / f"python-{name}"
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
    start = shlex.quote(str(Path(fork_server_start.__file__).resolve()))
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
    """Starts the server for a JVM, detached. Without one, Spark starts plain Python processes."""
    if not switched_on():
        return
    ours = sys.executable
    more = [CONNECT] if OF_CONNECT[0] in sys.modules else []
    command = [ours, "-I", "-S", fork_server_start.__file__, ours, SERVE, str(jvm), *more]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, env=dict(environment), timeout=START_S_MAX, check=False)


def run_fork_server(jvm: int, *, modules: tuple[str, ...] = MODULES) -> None:
    """Serves until the JVM exits. It listens before the imports, so early callers wait for them."""
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
    for module in modules:
        importlib.import_module(module)
    if "numpy" in sys.modules:
        import numpy as np

        # A worker that imports numpy itself gets its own random seed; so must a forked one.
        os.register_at_fork(after_in_child=np.random.seed)
    # Workers collect garbage after each task. Freezing the imported objects saves 40 ms each time
    # and keeps their memory pages shared.
    gc.collect()
    gc.freeze()


def _is_over(alive: int, listening: socket.socket) -> bool:
    """Waits for a caller or the JVM's exit; True for the latter."""
    poll = select.poll()
    poll.register(alive, select.POLLIN)
    poll.register(listening, select.POLLIN)
    return any(descriptor == alive for descriptor, _ in poll.poll())


def become(line: socket.socket, jvm: int) -> NoReturn:
    """Turns the forked process into the requested one: files, environment, directory, module."""
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
        # The daemon exits with its standard input. It forks, so it gets no thread, and its children
        # close the connection.
        os.register_at_fork(after_in_child=line.close)
    else:
        threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    random.seed()
    code: object = 0
    try:
        # runpy warns that the module is imported already.
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
    """Receives the request: the words to run, and whether the process is detached."""
    head, files, _, _ = socket.recv_fds(line, SIZE.size, FILES_MAX)
    (size,) = SIZE.unpack(head)
    body = b""
    while len(body) < size:
        body += line.recv(size - len(body)) or _gone()
    request = json.loads(body)
    for number, descriptor in enumerate(files[:3]):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    _as_started()
    return [*request["words"], *map(str, files[3:])], request["alone"]


def _as_started() -> None:
    """Repeats what Python does with its environment at startup: the module path, and line buffering
    of the standard streams."""
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    paths = dict.fromkeys(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[1:1] = [path for path in paths if path not in ("", *sys.path) and not _is_spark(path)]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _is_spark(path: str) -> bool:
    """Spark adds its jar to PYTHONPATH, although it has no modules. Python would read the names of
    6,000 classes in it, and again after each cache invalidation: 80 ms in each process."""
    return Path(path).name.startswith("spark-core_") and path.endswith(".jar")


def _gone() -> NoReturn:
    os._exit(1)


def _end_with(line: socket.socket) -> None:
    """Exits when the process that Spark knows has been killed."""
    with contextlib.suppress(OSError):
        line.recv(1)
    os._exit(0)


if __name__ == "__main__":
    run_fork_server(int(sys.argv[1]), modules=MODULES + OF_CONNECT * (CONNECT in sys.argv))
