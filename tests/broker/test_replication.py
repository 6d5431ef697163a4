"""Three brokers that replicate: what is acknowledged is on all of them, whoever goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.replica.partition import Partition
from ottla.testing import LocalCluster

PATIENCE_S = 30.0


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as cluster:
        yield cluster


def until(cluster: LocalCluster, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not cluster.call(condition):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def held(cluster: LocalCluster, broker: int, topic: str = "t", index: int = 0) -> Partition:
    return cluster.broker(broker).partitions.find(topic, index)


def test_followers_have_what_the_leader_has(cluster: LocalCluster) -> None:
    cluster.create_topic("t", partitions=3, replication_factor=3)
    producer = cluster.producer(value=str)
    started = time.monotonic()
    producer.send("t", "first", partition=0).result(PATIENCE_S)
    print("first ack after", time.monotonic() - started)
    sent = [producer.send("t", f"{each}", partition=each % 3) for each in range(3000)]
    for each in sent:
        each.result(PATIENCE_S)
    print("all acks after", time.monotonic() - started)

    def ends() -> Any:
        return [
            {
                (held(cluster, b, "t", i).log.end_offset, held(cluster, b, "t", i).high_watermark)
                for b in range(3)
            }
            for i in range(3)
        ]

    until(cluster, lambda: ends() == [{(1001, 1001)}, {(1000, 1000)}, {(1000, 1000)}])
