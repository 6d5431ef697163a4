"""A real Spark cluster on this machine, and a Spark Connect server, started from pyspark's jars.

The jobs run in processes of their own: a process has one Spark.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark_daemons import PATIENCE_S, connect_server, spark_cluster

from ottla.testing import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]
SPARK_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
}

Place = tuple[str, str]
"""An option of `ottla streams run`, and what it is given."""

# Counts by key; every count is written.
STREAM_JOB = """
from ottla.spark.streams import String, Topology

config = {"statestore.cache.max.bytes": 0}
topology = Topology(key=String(), value=String())
counts = topology.stream("in").group_by_key().count(store="counts")
counts.to_stream().map_values(str).to("counted", value=String())
"""

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


@pytest.fixture(scope="module", params=["cluster", "connect"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """One of each for all tests: a JVM takes seconds to start."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "cluster":
        with spark_cluster(folder) as url:
            yield "--master", url
    else:
        with connect_server(folder) as url:
            yield "--remote", url


def test_topics_are_read_and_written(place: Place, broker: LocalCluster, tmp_path: Path) -> None:
    option, url = place
    run_job(broker, tmp_path, **{option.strip("-"): url})


def test_a_stream_job_with_state_goes_on_where_it_was(
    place: Place, broker: LocalCluster, tmp_path: Path
) -> None:
    job = tmp_path / "counting.py"
    job.write_text(STREAM_JOB)
    broker.create_topic("counted")
    for last in (20, 40):  # the second time it goes on with its state
        with stream_job(job, place, broker, tmp_path) as running:
            await_count(broker, last, running, tmp_path / "streams.log")
        with broker.producer() as producer:
            for number in range(20):
                producer.send("in", b"more%d" % number, key=b"k")
    with broker.consumer("counted") as consumer:
        found = consumer.take(40, timeout_s=PATIENCE_S)
    assert [int(each.value or b"") for each in found] == list(range(1, 41))


@contextlib.contextmanager
def stream_job(
    job: Path, place: Place, broker: LocalCluster, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """`ottla streams run`, ended as a user ends it."""
    words = [str(job), "-b", broker.bootstrap_servers, "--state-dir", str(folder / "state")]
    settings = [word for each in SPARK_SETTINGS.items() for word in ("--config", "=".join(each))]
    with (folder / "streams.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", "streams", "run", *words, *place, *settings],
            stdout=log,
            stderr=log,
            env={**os.environ, "OTTLA_SPARK_ARCHIVE": "off"},
        )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, (folder / "streams.log").read_text()[-3000:]
    finally:
        process.kill()
        process.wait()


def await_count(
    broker: LocalCluster, number: int, running: subprocess.Popen[bytes], log: Path
) -> None:
    with broker.consumer("counted") as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while (record := consumer.poll(0.5)) is None or int(record.value or b"") < number:
            assert running.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
