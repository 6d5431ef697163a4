"""A user's session, in separate processes where that matters."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark import fork_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
PATIENCE_S = 120.0

# Prints its observations, survives one Ctrl-C, then waits to be killed.
DRIVER = """
import time
from ottla.spark import session
spark = session.start(master="local[1]", heap="512m")
version = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
print("java", version.split(".")[0], flush=True)
try:
    print("jvm", spark.sparkContext._gateway.proc.pid, flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    print("sum", spark.range(10).selectExpr("sum(id) s").first().s, flush=True)
time.sleep(100)
"""


@contextlib.contextmanager
def driver(directory: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """In a separate session, as a shell on a terminal starts it."""
    with (directory / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "OTTLA_SPARK_ARCHIVE": "off", **environment},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"{word} "), line
    return line.removeprefix(f"{word} ").strip()


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.05)


def test_pypis_java_runs_spark_dies_with_its_driver_and_survives_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    without_java = {"PATH": str(tmp_path / "bin"), "JAVA_HOME": ""}
    with driver(tmp_path, **without_java) as process:
        assert int(said(process, "java")) >= 21
        jvm = Path("/proc", said(process, "jvm"))
        os.killpg(process.pid, signal.SIGINT)
        assert said(process, "sum") == "45"
        assert jvm.exists()
        process.kill()
        process.wait()
        until(lambda: not jvm.exists() or " Z " in (jvm / "stat").read_text(), "the JVM to end")
    assert (tmp_path / "stderr").read_text() == ""


def test_settings_of_a_local_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert str(spark.conf.get("spark.sql.streaming.stateStore.providerClass")).endswith(
        "RocksDBStateStoreProvider"
    )
    assert spark.sparkContext.getConf().get("spark.ui.showConsoleProgress") == "false"


def test_no_environment_variable_leaks_to_children(spark: SparkSession) -> None:
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert os.environ["PYSPARK_PYTHON"] == fork_server.python()


def test_ctrl_c_is_not_taken_over(spark: SparkSession) -> None:
    handler = signal.getsignal(signal.SIGINT)
    assert getattr(handler, "__module__", None) != "pyspark.core.context"


def test_a_second_start_gives_the_same_session_in_every_thread(spark: SparkSession) -> None:
    from ottla.spark import session

    found: list[SparkSession] = []
    threads = [
        threading.Thread(target=lambda: found.append(session.start(master="local[2]")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [session is spark for session in found] == [True, True, True]
