"""The peers in `make bench` do the same work: Kafka Streams' jobs, Kafka's worker."""

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
from benchmarks.committed import CommittedCount
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
def test_a_kafka_streams_job_gives_the_results_of_ours(
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
    theirs = {record.key(): _plain(record.value()) for record in _records(kafka, "results", COUNT)}
    assert len(theirs) == COUNT
    assert theirs == _ours(job, sent)


def _records(kafka: LocalCluster, topic: str, count: int) -> list[Any]:
    reader = CommittedCount(kafka.bootstrap_servers, topic, partitions=PARTITIONS)
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
        for entry in sent:
            driver.pipe(entry.topic(), entry.key(), entry.value(), entry.timestamp()[1])
        results = driver.create_output_topic("results").read_records_to_list()
    return {result.key: _plain(result.value) for result in results}


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
        reader = CommittedCount(kafka.bootstrap_servers, "lines")
        stack.callback(reader.close)
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"}
        worker.copy("in", config, COUNT, reader.counting())
        worker.delete("in")
        config = {"connector.class": "FileStreamSink", "file": str(target), "topics": "lines"}
        worker.copy("out", config, COUNT, lambda: lines_in(target, 100))
        assert worker.cpu_s > 0
    assert worker.cpu_s == 0.0
    assert target.read_bytes() == source.read_bytes()
