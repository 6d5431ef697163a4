"""Processes that are forked from one that is warm: they are what was asked for, and end with it."""

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

from ottla.spark import planner_start, planners
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    not planners.switched_on(), reason="needs pidfd_open and SO_PEERCRED: Linux"
)
PATIENCE_S = 60.0
SERVER = """
import sys
from ottla.spark.planners import serve
serve(int(sys.argv[1]), modules=tuple(sys.argv[2:]))
"""
ASKED = """
import os, sys, time
if "fork" in sys.argv:
    import numpy
    for _ in range(2):
        if os.fork() == 0:
            jars = any("spark-core" in each for each in sys.path)
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
    until(lambda: planner_start.address(os.getpid())[1:] in Path("/proc/net/unix").read_text())
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
        [sys.executable, "-I", "-S", planner_start.__file__, sys.executable, *words],
        cwd=directory,
        env={**os.environ, "MARK": "here"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_forked_process_has_the_environment_and_files_of_who_asked(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    for word in ("one", "two"):
        output, _ = start(tmp_path, "-m", "asked", word).communicate(timeout=PATIENCE_S)
        assert output == f"{tmp_path} here ['{word}'] {server.pid} {os.getpid()}\n"


def test_it_ends_with_the_process_that_spark_knows(
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


def test_one_that_is_left_alone_outlives_who_asked_and_has_files_that_it_was_given(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", "here")
    reading, writing = os.pipe()
    with open(os.devnull) as nothing, open(reading) as told:
        name, words = planner_start.address(os.getpid()), ["-m", "asked", "alone"]
        files = [nothing.fileno(), nothing.fileno(), nothing.fileno(), writing]
        assert planner_start.left_alone(name, words, files)
        os.close(writing)
        process, session, parent = map(int, told.readline().split())
        assert (session, parent) == (process, server.pid)
        assert told.readline() == f"{tmp_path} here {nothing.name}\n"
        assert Path("/proc", str(process)).exists()  # nobody holds a line to it
        os.kill(process, signal.SIGKILL)
    assert not planner_start.left_alone(planner_start.address(1), words, files[:3])


def test_a_process_is_as_one_that_python_has_started(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules are found where its environment says; its forks have random numbers of their own."""
    monkeypatch.setenv("PYTHONPATH", f"there{os.pathsep}/jars/spark-core_2.13-4.0.0.jar")
    output, _ = start(tmp_path, "-m", "asked", "fork").communicate(timeout=PATIENCE_S)
    lines = [line.split() for line in output.splitlines()]
    assert [line[1:] for line in lines] == [["True", "False"]] * 2
    assert lines[0][0] != lines[1][0]


def test_a_daemon_of_workers_ends_with_its_input_as_spark_ends_it(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    start = [sys.executable, "-I", "-S", planner_start.__file__, sys.executable]
    daemon = subprocess.Popen(
        [*start, "-m", planners.DAEMON, "pyspark.worker"],
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
        assert (worker / "comm").read_text().strip() == planners.DAEMON
        daemon.terminate()
        daemon.stdin.close()
        daemon.stdout.close()
        daemon.wait(PATIENCE_S)
    until(lambda: not worker.exists())


def test_who_calls_a_server_that_does_not_come_up_is_told(tmp_path: Path) -> None:
    """It may have been called while it imported."""
    process = served(tmp_path, "there_is_no_such_module")
    name = planner_start.address(os.getpid())
    assert not planner_start.handed_over(name, ["-m", "asked"])
    process.wait(PATIENCE_S)
    assert not planner_start.handed_over(name, ["-m", "asked"])


def test_a_server_is_started_as_nobodys_child() -> None:
    """It is called by the JVM's number, and ends when that is gone."""
    with subprocess.Popen(["sleep", "600"]) as jvm:
        name = planner_start.address(jvm.pid)
        planners.start(jvm.pid, os.environ)
        until(lambda: name[1:] in Path("/proc/net/unix").read_text())
        assert not [each for each in children(os.getpid()) if "ottla.spark.planners" in each]
        jvm.kill()
    until(lambda: name[1:] not in Path("/proc/net/unix").read_text())


def test_without_a_server_it_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, became = [], []
    monkeypatch.setattr(sys, "argv", ["x", "python", "-m", "asked"])
    monkeypatch.setattr(planner_start, "start_server", lambda *words: started.append(words))
    monkeypatch.setattr(os, "execv", lambda *words: became.append(words))
    planner_start.main()
    assert started == [("python", os.getppid(), [])]
    assert became == [("python", ["python", "-m", "asked"])]


def test_the_script_is_python_for_all_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CACHE_DIR", str(tmp_path / "cache"))
    found = planners.python()
    assert found != sys.executable
    ran = subprocess.run([found, "-c", "import sys; print(sys.executable)"], stdout=-1, text=True)
    assert ran.stdout.strip() == sys.executable
    monkeypatch.setenv(planners.SWITCH, "off")
    assert planners.python() == sys.executable
    monkeypatch.delenv(planners.SWITCH)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OTTLA_CACHE_DIR", str(tmp_path / "file"))
    assert planners.python() == sys.executable, "no place to write it"


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_streaming_queries_of_spark_come_from_the_server(
    spark: SparkSession, tmp_path: Path
) -> None:
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    until(lambda: planner_start.address(jvm)[1:] in Path("/proc/net/unix").read_text())
    with LocalCluster() as broker:
        broker.create_topic("warm")
        reader = spark.readStream.format("ottla").option("subscribe", "warm")
        rows = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()
        writer = rows.writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        planner = [each for each in children(jvm) if planners.RUNNER in each]
        query.stop()
    assert planner
    assert all("planner_start.py" in each for each in planner)
    until(lambda: not any(planners.RUNNER in each for each in children(jvm)))


def children(pid: int) -> list[str]:
    """What these processes were started as."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append((each / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found
