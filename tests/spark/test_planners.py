"""Processes that are forked from one that is warm: they are what was asked for, and end with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
serve(int(sys.argv[1]), modules=(), wait_s=0)
"""
ASKED = """
import os, sys, time
print(os.getcwd(), os.environ["MARK"], sys.argv[1:], os.getppid(), flush=True)
if "stay" in sys.argv:
    print(os.getpid(), flush=True)
    time.sleep(600)
sys.exit(3)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """For this process, as if it were a JVM."""
    (tmp_path / "asked.py").write_text(ASKED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(os.getpid())], env=environment)
    until(lambda: planner_start.address(os.getpid())[1:] in Path("/proc/net/unix").read_text())
    yield process
    process.kill()
    process.wait()


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
        assert output == f"{tmp_path} here ['{word}'] {server.pid}\n"


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


def test_without_a_server_it_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, became = [], []
    monkeypatch.setattr(sys, "argv", ["x", "python", "-m", "asked"])
    monkeypatch.setattr(planner_start, "start_server", lambda *words: started.append(words))
    monkeypatch.setattr(os, "execv", lambda *words: became.append(words))
    planner_start.main()
    assert started == [("python", os.getppid())]
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
    with LocalCluster() as broker:
        broker.create_topic("warm")
        reader = spark.readStream.format("ottla").option("subscribe", "warm")
        rows = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()

        def run(name: str) -> Any:
            place = str(tmp_path / name)
            return rows.writeStream.format("noop").option("checkpointLocation", place).start()

        first = run("first")
        first.processAllAvailable()
        until(lambda: planner_start.address(jvm)[1:] in Path("/proc/net/unix").read_text())
        second = run("second")
        second.processAllAvailable()
        starts = [each for each in children(jvm) if "planner_start.py" in each]
        first.stop()
        second.stop()
    assert starts  # the second; also the first, if an earlier test has had the server started
    until(lambda: not any("planner_start.py" in each for each in children(jvm)))


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
