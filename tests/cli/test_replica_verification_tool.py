"""kafka-replica-verification: the sentences of Apache Kafka's."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.cli.kafka.replica_verification import Replica, ReplicaComparison, batches, main
from ottla.client import TopicPartition
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing import LocalCluster

PLACE = TopicPartition("payments", 0)
OTHER = TopicPartition("payments", 1)
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


def batch_of(*values: bytes, base_offset: int) -> bytes:
    records = [
        Record(offset, 1000, None, value) for offset, value in enumerate(values, base_offset)
    ]
    return bytes(build_batch(records, base_offset=base_offset))


def replica(*found: bytes, high_watermark: int) -> Replica:
    return Replica(high_watermark, tuple(batches(b"".join(found))))


A = batch_of(b"a", b"b", base_offset=0)
B = batch_of(b"c", base_offset=2)
C = batch_of(b"d", base_offset=3)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def comparison(said: list[str]) -> ReplicaComparison:
    return ReplicaComparison({PLACE: 0, OTHER: 0}, {PLACE: 2, OTHER: 2}, said.append)


def test_what_all_replicas_have_committed_is_compared(
    comparison: ReplicaComparison, said: list[str]
) -> None:
    whole = replica(A, B, C, high_watermark=3)  # C is not committed yet
    behind = replica(A, high_watermark=2)
    assert comparison.compare({PLACE: {1: whole, 2: behind}})
    assert comparison.offsets == {PLACE: 2, OTHER: 0}
    comparison.report()
    assert said == ["max lag is 1 for partition payments-0 at offset 2 among 2 partitions"]


def test_a_replica_that_is_missing_delays_its_partition(
    comparison: ReplicaComparison, said: list[str]
) -> None:
    one = replica(A, high_watermark=2)
    assert comparison.compare({PLACE: {1: one}, OTHER: {1: one, 2: one}})
    assert comparison.offsets == {PLACE: 0, OTHER: 2}
    assert said == []


def test_a_checksum_that_differs_is_reported(
    comparison: ReplicaComparison, said: list[str]
) -> None:
    damaged = batch_of(b"a", b"x", base_offset=0)
    first, second = replica(A, B, high_watermark=3), replica(damaged, B, high_watermark=3)
    assert comparison.compare({PLACE: {1: first, 2: second}})
    assert comparison.offsets[PLACE] == 3
    assert said == [
        "partition payments-0 has unmatched checksum at offset 1; replica 1's checksum"
        f" {first.batches[0].crc}; replica 2's checksum {second.batches[0].crc}"
    ]


def test_offsets_that_differ_end_the_comparison(
    comparison: ReplicaComparison, said: list[str]
) -> None:
    shorter = batch_of(b"a", base_offset=0)
    first, second = replica(A, high_watermark=2), replica(shorter, high_watermark=2)
    assert not comparison.compare({PLACE: {1: first, 2: second}})
    assert said == ["partition payments-0: replica 1's offset 1 doesn't match replica 2's offset 0"]


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch() -> None:
    assert [batch.last_offset for batch in batches(A + B[:-1])] == [1]
    assert [batch.last_offset for batch in batches(A + B[:20])] == [1]
    assert list(batches(None)) == []


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as found:
        found.create_topic("payments", 2, replication_factor=2)
        with found.producer(value=str) as producer:
            for number in range(20):
                producer.send("payments", str(number))
        yield found


def test_replicas_of_a_cluster(cluster: LocalCluster) -> None:
    words = ["--broker-list", cluster.bootstrap_servers, "--topics-include", "pay.*"]
    limits = ["--time", "-2", "--max-wait-ms", "100", "--report-interval-ms", "200"]
    tool = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.kafka.replica_verification", *words, *limits],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tool.stdout is not None
    assert re.fullmatch(rf"{STAMP}: verification process is started\n", tool.stdout.readline())
    lag = rf"{STAMP}: max lag is (\d+) for partition payments-[01] at offset (\d+) among 2 part.*\n"
    for line in tool.stdout:
        found = re.fullmatch(lag, line)
        assert found is not None, line
        if found[1] == "0" and found[2] != "0":  # all of the partition, and not before its records
            break
    tool.send_signal(signal.SIGINT)
    tool.stdout.close()
    assert tool.wait(60) == 130


def test_nothing_to_compare(cluster: LocalCluster, run: Callable[..., Any]) -> None:
    place = ("--broker-list", cluster.bootstrap_servers)
    ran = run(main, *place, "--topics-include", "no-such.*")
    assert ran.code == 1
    assert "No topics found: there are none" in ran.err
    assert 'Missing required argument "[broker-list]"' in run(main, "--time", "-1").err
    assert "is an invalid regex" in run(main, *place, "--topics-include", "*").err
