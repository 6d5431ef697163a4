"""A real Spark cluster on this machine, and a Spark Connect server, started from pyspark's jars.

The jobs run in processes of their own: a process has one Spark.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.spark import gateway
from ottla.spark.java import find
from ottla.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]
PATIENCE_S = 240.0
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"

# Reads a topic, writes another, and prints what it saw.
JOB = """
import sys
from ottla.spark import session
master, remote, servers, checkpoint = sys.argv[1:]
spark = session.start(
    master=master,
    remote=remote or None,
    settings={"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m",
              "spark.cores.max": "1"},
)
options = {"kafka.bootstrap.servers": servers}
rows = spark.read.format("ottla").options(**options).option("subscribe", "in").load()
print("read", rows.count(), flush=True)
stream = spark.readStream.format("ottla").options(**options, startingOffsets="earliest")
writer = stream.option("subscribe", "in").load().select("key", "value").writeStream
writer = writer.format("ottla").options(**options, topic="out", checkpointLocation=checkpoint)
query = writer.trigger(availableNow=True).start()
query.awaitTermination(200)
print("zone", spark.conf.get("spark.sql.session.timeZone"), flush=True)
"""


@pytest.fixture
def broker() -> Iterator[LocalCluster]:
    with LocalCluster() as cluster:
        with cluster.producer() as producer:
            for number in range(20):
                producer.send("in", b"v%d" % number, key=b"k")
        cluster.create_topic("out")
        yield cluster


@contextlib.contextmanager
def daemon(main: str, arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A JVM of Spark's: gone when the block is left."""
    settings = log.with_suffix(".properties")
    settings.write_text(gateway.log_settings(log))
    options = [f"-Dlog4j2.configurationFile={settings}"]
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


def run_job(broker: LocalCluster, tmp_path: Path, *, master: str = "", remote: str = "") -> None:
    checkpoint = str(tmp_path / "checkpoint")
    words = [master, remote, broker.bootstrap_servers, checkpoint]
    done = subprocess.run(
        [sys.executable, "-c", JOB, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "OTTLA_SPARK_ARCHIVE": "off"},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["read", "20", "zone", "UTC"]), done.stderr
    with broker.consumer("out") as consumer:
        found = consumer.take(20, timeout_s=PATIENCE_S)
    assert sorted(each.value for each in found) == sorted(b"v%d" % n for n in range(20))


def test_a_cluster_of_spark_reads_and_writes_topics(broker: LocalCluster, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "master.log"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    with daemon(MASTER, [*here, "--port", str(port)], log) as process:
        await_port(port, process, log)
        size = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
        with daemon(WORKER, [*here, *size, url], tmp_path / "worker.log"):
            run_job(broker, tmp_path, master=url)
    assert "Registered app ottla" in log.read_text()


def test_a_spark_connect_server_reads_and_writes_topics(
    broker: LocalCluster, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "connect.log"
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
    }
    words = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    with daemon(gateway.SUBMIT, [*words, "--class", CONNECT, "spark-internal"], log) as process:
        await_port(port, process, log)
        run_job(broker, tmp_path, remote=f"sc://127.0.0.1:{port}")
