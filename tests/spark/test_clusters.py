"""A real Spark cluster on this machine, and a Spark Connect server, started from pyspark's jars.

The jobs run in separate processes, because a process has one Spark.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from ottla.testing import LocalCluster
from spark_daemons import PATIENCE_S, SHORT_LIVED, connect_server, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1300)]
SPARK_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
}
SURROUNDINGS = {
    **os.environ,
    "OTTLA_SPARK_ARCHIVE": "off",
    "OTTLA_SPARK_JAVA_OPTIONS": " ".join(SHORT_LIVED),
}

Place = tuple[str, str]
"""An option of `ottla streams run` and `ottla sql-server`, and its value."""

# Counts by key; every count is written.
STREAM_JOB = """
from ottla.streams import String, Topology

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


SQL = """
CREATE STREAM orders (id STRING KEY, item STRING, qty INT)
    WITH (kafka_topic='orders', value_format='JSON');
CREATE TABLE items (item STRING PRIMARY KEY, price INT)
    WITH (kafka_topic='items', value_format='JSON');
CREATE STREAM many AS SELECT id, qty FROM orders WHERE qty > 1;
CREATE TABLE sold AS
    SELECT item, SUM(qty) AS total FROM orders WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY item;
CREATE STREAM priced AS
    SELECT o.item, o.id AS id, o.qty * i.price AS cost
    FROM orders o JOIN items i ON o.item = i.item;
"""
ORDERS = (("a", "pen", 1), ("b", "ink", 2), ("c", "pen", 3))
PRICES = {"pen": 2, "ink": 5}
NOON_MS = 1_790_000_000_000  # one hour for all


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
        env=SURROUNDINGS,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["read", "20", "zone", "UTC"]), done.stderr
    with broker.consumer("out") as consumer:
        found = consumer.take(20, timeout_s=PATIENCE_S)
    assert sorted(record.value for record in found) == sorted(b"v%d" % n for n in range(20))


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


def test_a_stateful_stream_job_resumes(place: Place, broker: LocalCluster, tmp_path: Path) -> None:
    job = tmp_path / "counting.py"
    job.write_text(STREAM_JOB)
    broker.create_topic("counted")
    for last in (20, 40):  # the second run resumes with its state
        words, log = ["streams", "run", str(job)], tmp_path / "streams.log"
        with ottla(words, "--config", place, broker, log) as running:
            await_count(broker, last, running, log)
        with broker.producer() as producer:
            for number in range(20):
                producer.send("in", b"more%d" % number, key=b"k")
    with broker.consumer("counted") as consumer:
        found = consumer.take(40, timeout_s=PATIENCE_S)
    assert [int(record.value or b"") for record in found] == list(range(1, 41))


@contextlib.contextmanager
def ottla(
    words: Sequence[str], option: str, place: Place, broker: LocalCluster, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A long-running command, stopped as a user stops it; `option` passes Spark's settings."""
    common = ["-b", broker.bootstrap_servers, "--state-dir", str(log.parent / "state"), *place]
    settings = [word for item in SPARK_SETTINGS.items() for word in (option, "=".join(item))]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *words, *common, *settings],
            stdout=out,
            stderr=out,
            env=SURROUNDINGS,
        )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0, log.read_text()[-3000:]
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


@pytest.mark.parametrize("place", ["cluster"], indirect=True)
def test_sql_filters_counts_and_joins(place: Place, broker: LocalCluster, tmp_path: Path) -> None:
    for topic in ("orders", "items"):
        broker.create_topic(topic, partitions=2)
    with broker.producer() as producer:
        for item, price in PRICES.items():
            producer.send(
                "items",
                json.dumps({"PRICE": price}).encode(),
                key=item.encode(),
                timestamp_ms=NOON_MS,
            )
        for order, item, number in ORDERS:
            value = json.dumps({"ITEM": item, "QTY": number}).encode()
            producer.send("orders", value, key=order.encode(), timestamp_ms=NOON_MS)
    statements, log = tmp_path / "shop.sql", tmp_path / "server.log"
    statements.write_text(f"SET 'auto.offset.reset'='earliest';{SQL}")
    words = ["sql-server", "--queries-file", str(statements), "--port", "0"]
    with ottla(words, "--override", place, broker, log) as running:

        def becomes(topic: str, wanted: Mapping[str, object]) -> None:
            await_last(broker, topic, wanted, running, log)

        becomes("MANY", {"b": {"QTY": 2}, "c": {"QTY": 3}})
        becomes("SOLD", {"pen": {"TOTAL": 4}, "ink": {"TOTAL": 2}})
        becomes("PRICED", {"pen": {"ID": "c", "COST": 6}, "ink": {"ID": "b", "COST": 10}})
    (aggregate,) = (tmp_path / "state").glob("**/checkpoint/state/0")
    # As many as the topics have partitions, not Spark's 200.
    assert {child.name for child in aggregate.iterdir() if child.name.isdigit()} <= {"0", "1"}
    (join,) = (tmp_path / "state").glob("**/tasks/*/tasks/*")
    assert {child.name for child in join.iterdir()} <= {"0", "1"}


def await_last(
    broker: LocalCluster,
    topic: str,
    wanted: Mapping[str, object],
    running: subprocess.Popen[bytes],
    log: Path,
) -> None:
    """Waits for the expected last value of each key; windowed keys are compared as text."""
    last: dict[str, object] = {}
    deadline = time.monotonic() + PATIENCE_S
    while last != wanted:
        assert running.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, (topic, last, log.read_text()[-3000:])
        time.sleep(0.5)
        with broker.consumer(topic) as consumer:
            while (record := consumer.poll(0.5)) is not None:
                key = bytes(record.key or b"").decode("utf-8", "ignore").split("\0")[0]
                last[key] = json.loads(record.value or b"null")
