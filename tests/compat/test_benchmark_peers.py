"""What `make bench` puts beside ours does the same work: Kafka Streams' jobs, Kafka's worker."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from compat_brokers import REPOSITORY

from ottla.streams import TopologyTestDriver
from ottla.testing import LocalCluster

sys.path.append(str(REPOSITORY))
from benchmarks.committed import Committed
from benchmarks.marks import Mark
from benchmarks.orders import KEYS, PARTITIONS, Orders, long_count
from benchmarks.processes import spawn
from benchmarks.rows.connect import lines_in, write_lines
from benchmarks.rows.streams import JOBS

from benchmarks import connect_worker, kafka_streams, streams_job

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]

COUNT = 50
Found = dict[bytes | None, Any]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kafka_streams.compiled(tmp_path_factory.mktemp("java") / "classes")


@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_kafka_streams_gives_what_ours_gives(
    kafka: LocalCluster, tmp_path: Path, classes: Path, job: str
) -> None:
    with ExitStack() as stack:
        load = Orders(
            kafka.bootstrap_servers, count_of=long_count if job == "windowed count" else None
        )
        stack.callback(load.close)
        load.send(COUNT)
        command = kafka_streams.command(classes, job, kafka.bootstrap_servers, tmp_path / "state")
        mark = Mark()
        started = spawn(command, log=tmp_path / "log", env=mark.environment)
        stack.callback(mark.end)
        stack.callback(started.stop)
        load.wait(COUNT, started.alive)
    sent = _records(kafka, "customers", KEYS) if job == "table join" else []
    sent += _records(kafka, "orders", COUNT)
    theirs = {each.key(): _plain(each.value()) for each in _records(kafka, "results", COUNT)}
    assert len(theirs) == COUNT
    assert theirs == _ours(job, sent)


def _records(kafka: LocalCluster, topic: str, count: int) -> list[Any]:
    reader = Committed(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
    found: list[Any] = []
    while len(found) < count:
        found += reader.take()
    reader.close()
    return found


def _ours(job: str, sent: list[Any]) -> Found:
    os.environ[streams_job.WHICH] = job
    try:
        topology = streams_job.topology()
    finally:
        del os.environ[streams_job.WHICH]
    with TopologyTestDriver(topology) as driver:
        for each in sent:
            driver.pipe(each.topic(), each.key(), each.value(), each.timestamp()[1])
        results = driver.create_output_topic("results").read_records_to_list()
    return {each.key: _plain(each.value) for each in results}


def _plain(value: bytes) -> Any:
    """JSON, whatever the order of its names; or a count of eight bytes."""
    return json.loads(value) if value.startswith(b"{") else int.from_bytes(value, "big")


def test_kafkas_worker_copies_a_file_through_a_topic(kafka: LocalCluster, tmp_path: Path) -> None:
    source, target = tmp_path / "lines.txt", tmp_path / "copy.txt"
    write_lines(source, COUNT)
    kafka.create_topic("lines")
    with ExitStack() as stack:
        worker = connect_worker.Worker(
            connect_worker.kafka_command, tmp_path, kafka.bootstrap_servers, stack
        )
        reader = Committed(kafka.bootstrap_servers, "lines")
        stack.callback(reader.close)
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"}
        worker.copy("in", config, COUNT, reader.counting())
        worker.delete("in")
        config = {"connector.class": "FileStreamSink", "file": str(target), "topics": "lines"}
        worker.copy("out", config, COUNT, lambda: lines_in(target, 100))
        assert worker.cpu_s > 0
    assert worker.cpu_s == 0.0
    assert target.read_bytes() == source.read_bytes()
