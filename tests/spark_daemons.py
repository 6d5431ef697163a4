"""Spark's own processes, started from pyspark's jars: a master with a worker, a Connect server."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.spark import gateway
from ottla.spark.java import find

PATIENCE_S = 600.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
# Java's second compiler would take the cores from what these processes do in their few seconds.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextlib.contextmanager
def spark_cluster(folder: Path, *, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """Its address."""
    port, log = free_port(), folder / "master.log"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    with daemon(MASTER, [*here, "--port", str(port)], log) as process:
        await_port(port, process, log)
        size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(folder / "work")]
        with daemon(WORKER, [*here, *size, url], folder / "worker.log"):
            yield url
    assert "Registered app ottla" in log.read_text()


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    port, log = free_port(), folder / "connect.log"
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    words = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    with daemon(gateway.SUBMIT, [*words, "--class", CONNECT, "spark-internal"], log) as process:
        await_port(port, process, log)
        yield f"sc://127.0.0.1:{port}"


@contextlib.contextmanager
def daemon(main: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A JVM of Spark, which ends with the block."""
    settings = log.with_suffix(".properties")
    settings.write_text(gateway.log_settings(log))
    options = [f"-Dlog4j2.configurationFile={settings}", *SHORT_LIVED]
    command = gateway.java_command(find(), options, heap="512m", main=main)
    environment = {**gateway.jvm_environment(), "PYSPARK_PYTHON": sys.executable}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=out,
            stderr=out,
            env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        ended = process.poll() is not None or time.monotonic() > deadline
        assert not ended, log.read_text(errors="replace")[-3000:]
        time.sleep(0.05)
