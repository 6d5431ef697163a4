"""Connectors on a Spark cluster, and through a Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from ottla.testing import LocalCluster
from spark_daemons import PATIENCE_S, connect_server, spark_cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# Connectors until its standard input is closed.
WORKER = """
import json, sys
from ottla.spark import session
from ottla.connect.run import connector_runner
from ottla.connect.run.worker_context import WorkerContext
given = json.loads(sys.argv[1])
settings = {"spark.executor.memory": "512m"}
if given["master"]:
    settings |= {"spark.driver.host": "127.0.0.1", "spark.cores.max": "2"}
spark = session.start(master=given["master"], remote=given["remote"] or None, settings=settings)
def told(status):
    for task in status.tasks:
        print(status.name, task.state, (task.trace or "").replace(chr(10), " "), flush=True)
running = [
    connector_runner.start_connector(name, config, spark=lambda: spark,
    worker=WorkerContext(given["worker"]), on_state=told)
    for name, config in given["connectors"].items()
]
sys.stdin.read()
for runner in running:
    runner.stop()
"""
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def broker() -> Iterator[LocalCluster]:
    with LocalCluster() as found:
        found.create_topic("lines", partitions=1)
        yield found


def run(broker: LocalCluster, folder: Path, *, master: str = "", remote: str = "") -> None:
    there, out = folder / "in.txt", folder / "out.txt"
    there.write_text("".join(f"line {number}\n" for number in range(50)))
    connectors = {
        "source": {"connector.class": "FileStreamSource", "file": str(there), "topic": "lines"},
        "sink": {"connector.class": "FileStreamSink", "file": str(out), "topics": "lines"},
        "shown": {"connector.class": "FileStreamSink", "topics": "lines"},
    }
    properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "far",
        "exactly.once.source.support": "enabled",
        "offset.storage.partitions": "1",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
    }
    given = {
        "master": master,
        "remote": remote,
        "connectors": connectors,
        "worker": properties,
    }
    log = folder / "worker-output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "OTTLA_SPARK_ARCHIVE": "off"},
        )
    try:
        until(lambda: lines(out) == numbered(50), process, log)
        message = "which a task on another machine"
        until(lambda: message in log.read_text(errors="replace"), process, log)
        with there.open("a") as file:
            file.write("".join(f"line {number}\n" for number in range(50, 100)))
        until(lambda: lines(out) == numbered(100), process, log)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0, log.read_text(errors="replace")[-3000:]
    finally:
        process.kill()
        process.wait()
    with broker.consumer("lines", group="reader", value=str) as consumer:
        found = consumer.take(100, PATIENCE_S) + consumer.take(1, 0.5)
    assert [item.value for item in found] == numbered(100)


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def until(done: Callable[[], bool], process: subprocess.Popen[Any], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        ended = process.poll() is not None or time.monotonic() > deadline
        assert not ended, log.read_text(errors="replace")[-5000:]
        time.sleep(0.1)


def test_connectors_on_a_cluster_of_spark(broker: LocalCluster, tmp_path: Path) -> None:
    with spark_cluster(tmp_path, cores=2) as url:
        run(broker, tmp_path, master=url)


def test_connectors_by_a_spark_connect_server(broker: LocalCluster, tmp_path: Path) -> None:
    with connect_server(tmp_path) as url:
        run(broker, tmp_path, remote=url)
