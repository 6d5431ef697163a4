"""Processes from the fork server: they run what was requested, and end with it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark import fork_server, fork_server_start
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    not fork_server.switched_on(), reason="needs pidfd_open and SO_PEERCRED: Linux"
)
PATIENCE_S = 60.0
SERVER = """
import sys
from ottla.spark.fork_server import run_fork_server
run_fork_server(int(sys.argv[1]), modules=tuple(sys.argv[2:]))
"""
ASKED = """
import os, sys, time
if "fork" in sys.argv:
    import numpy
    for _ in range(2):
        if os.fork() == 0:
            jars = any("spark-core" in path for path in sys.path)
            print(numpy.random.random(), "there" in sys.path, jars, flush=True)
            os._exit(0)
        os.wait()
    sys.exit(0)
if "alone" in sys.argv:
    with open(int(sys.argv[-1]), "w") as told:
        print(os.getpid(), os.getsid(0), os.getppid(), file=told)
        print(sys.path[0], os.environ["MARK"], os.readlink("/proc/self/fd/1"), file=told)
    time.sleep(600)
words = os.environ["MARK"], sys.argv[1:], os.getppid(), os.environ["OTTLA_SPARK_JVM"]
print(os.getcwd(), *words, flush=True)
if "stay" in sys.argv:
    print(os.getpid(), flush=True)
    time.sleep(600)
sys.exit(3)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """For this process, as if it were a JVM."""
    process = served(tmp_path, "numpy")
    until(lambda: fork_server_start.address(os.getpid())[1:] in Path("/proc/net/unix").read_text())
    yield process
    process.kill()
    process.wait()


def served(folder: Path, *modules: str) -> subprocess.Popen[bytes]:
    (folder / "asked.py").write_text(ASKED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", SERVER, str(os.getpid()), *modules]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start(directory: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", fork_server_start.__file__, sys.executable, *words],
        cwd=directory,
        env={**os.environ, "MARK": "here"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_forked_process_has_the_environment_and_files_of_its_caller(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    for word in ("one", "two"):
        output, _ = start(tmp_path, "-m", "asked", word).communicate(timeout=PATIENCE_S)
        assert output == f"{tmp_path} here ['{word}'] {server.pid} {os.getpid()}\n"


def test_a_forked_process_ends_with_its_parent(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    known = start(tmp_path, "-m", "asked", "stay")
    assert known.stdout is not None
    known.stdout.readline()
    forked = Path("/proc", known.stdout.readline().strip())
    assert forked.exists()
    known.kill()
    known.communicate()
    until(lambda: not forked.exists())


def test_a_detached_process_outlives_its_caller_and_has_the_given_files(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", "here")
    reading, writing = os.pipe()
    with open(os.devnull) as nothing, open(reading) as reader:
        name, words = fork_server_start.address(os.getpid()), ["-m", "asked", "alone"]
        files = [nothing.fileno(), nothing.fileno(), nothing.fileno(), writing]
        assert fork_server_start.left_alone(name, words, files)
        os.close(writing)
        process, session, parent = map(int, reader.readline().split())
        assert (session, parent) == (process, server.pid)
        assert reader.readline() == f"{tmp_path} here {nothing.name}\n"
        assert Path("/proc", str(process)).exists()  # no connection to it is open
        os.kill(process, signal.SIGKILL)
    assert not fork_server_start.left_alone(fork_server_start.address(1), words, files[:3])


def test_a_forked_process_looks_like_one_started_by_python(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds modules through its environment; its forks have their own random seeds."""
    monkeypatch.setenv("PYTHONPATH", f"there{os.pathsep}/jars/spark-core_2.13-4.0.0.jar")
    output, _ = start(tmp_path, "-m", "asked", "fork").communicate(timeout=PATIENCE_S)
    lines = [line.split() for line in output.splitlines()]
    assert [line[1:] for line in lines] == [["True", "False"]] * 2
    assert lines[0][0] != lines[1][0]


def test_a_daemon_of_workers_ends_with_its_input_as_spark_ends_it(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    start = [sys.executable, "-I", "-S", fork_server_start.__file__, sys.executable]
    daemon = subprocess.Popen(
        [*start, "-m", fork_server.DAEMON, "pyspark.worker"],
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    (port,) = struct.unpack(">i", daemon.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port)) as line:
        (number,) = struct.unpack(">i", line.recv(4))
        worker = Path("/proc", str(number))
        assert (worker / "comm").read_text().strip() == fork_server.DAEMON
        daemon.terminate()
        daemon.stdin.close()
        daemon.stdout.close()
        daemon.wait(PATIENCE_S)
    until(lambda: not worker.exists())


def test_a_caller_of_a_server_that_does_not_start_gets_an_error(tmp_path: Path) -> None:
    """It may have been called while it imported."""
    process = served(tmp_path, "there_is_no_such_module")
    name = fork_server_start.address(os.getpid())
    assert not fork_server_start.handed_over(name, ["-m", "asked"])
    process.wait(PATIENCE_S)
    assert not fork_server_start.handed_over(name, ["-m", "asked"])


def test_a_server_is_not_a_child_of_its_starter() -> None:
    """It is named after the JVM's pid, and exits with it."""
    with subprocess.Popen(["sleep", "600"]) as jvm:
        name = fork_server_start.address(jvm.pid)
        fork_server.start(jvm.pid, os.environ)
        until(lambda: name[1:] in Path("/proc/net/unix").read_text())
        assert not [line for line in children(os.getpid()) if "ottla.spark.fork_server" in line]
        jvm.kill()
    until(lambda: name[1:] not in Path("/proc/net/unix").read_text())


def test_without_a_server_python_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, became = [], []
    monkeypatch.setattr(sys, "argv", ["x", "python", "-m", "asked"])
    monkeypatch.setattr(
        fork_server_start, "start_fork_server", lambda *words: started.append(words)
    )
    monkeypatch.setattr(os, "execv", lambda *words: became.append(words))
    fork_server_start.main()
    assert started == [("python", os.getppid(), [])]
    assert became == [("python", ["python", "-m", "asked"])]


def test_the_script_runs_python_for_other_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_CACHE_DIR", str(tmp_path / "cache"))
    found = fork_server.python()
    assert found != sys.executable
    ran = subprocess.run([found, "-c", "import sys; print(sys.executable)"], stdout=-1, text=True)
    assert ran.stdout.strip() == sys.executable
    monkeypatch.setenv(fork_server.SWITCH, "off")
    assert fork_server.python() == sys.executable
    monkeypatch.delenv(fork_server.SWITCH)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OTTLA_CACHE_DIR", str(tmp_path / "file"))
    assert fork_server.python() == sys.executable, "no place to write it"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_streaming_queries_of_spark_come_from_the_server(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    until(lambda: fork_server_start.address(jvm)[1:] in Path("/proc/net/unix").read_text())
    with LocalCluster() as broker:
        broker.create_topic("warm")
        reader = spark.readStream.format("ottla").option("subscribe", "warm")
        rows = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()
        writer = rows.writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        planner = [command for command in children(jvm) if fork_server.RUNNER in command]
        query.stop()
    assert planner
    assert all("fork_server_start.py" in command for command in planner)
    until(lambda: not any(fork_server.RUNNER in command for command in children(jvm)))


def children(pid: int) -> list[str]:
    """The commands of these processes."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
