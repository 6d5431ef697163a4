"""Three brokers that replicate: acknowledged records survive the loss of any broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client import TopicPartition
from ottla.errors import KafkaError
from ottla.replica.partition import Partition
from ottla.testing import LocalCluster

PATIENCE_S = 60.0


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


def test_followers_replicate_the_leaders_records(cluster: LocalCluster) -> None:
    cluster.create_topic("t", partitions=3, replication_factor=3)
    producer = cluster.producer(value=str)
    started = time.monotonic()
    producer.send("t", "first", partition=0).result(PATIENCE_S)
    print("first ack after", time.monotonic() - started)
    sent = [producer.send("t", f"{number}", partition=number % 3) for number in range(3000)]
    for future in sent:
        future.result(PATIENCE_S)
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


def leader_of(cluster: LocalCluster, topic: str = "t", index: int = 0) -> int:
    def ask() -> int:
        image = cluster.broker(some(cluster)).image
        return image.topics[topic].partitions[index].leader

    return cluster.call(ask)


def some(cluster: LocalCluster) -> int:
    """The id of a running broker."""
    for broker_id in range(3):
        try:
            cluster.broker(broker_id)
        except (KeyError, RuntimeError):
            continue
        return broker_id
    raise AssertionError


def isr_of(cluster: LocalCluster, topic: str = "t", index: int = 0) -> list[int]:
    image = cluster.broker(some(cluster)).image
    return sorted(image.topics[topic].partitions[index].isr)


def test_a_killed_leader_is_replaced_without_losing_acknowledged_records(
    cluster: LocalCluster,
) -> None:
    cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = cluster.producer(value=str)
    for number in range(100):
        producer.send("t", f"{number}")
    producer.flush(PATIENCE_S)
    first = leader_of(cluster)
    started = time.monotonic()
    cluster.kill(first)
    producer.send("t", "after").result(PATIENCE_S)
    print("failover took", time.monotonic() - started)
    assert leader_of(cluster) != first
    consumer = cluster.consumer(value=str)
    consumer.assign({TopicPartition("t", 0): 0})
    read = [record.value for record in consumer.take(101, PATIENCE_S)]
    assert read == [*(f"{number}" for number in range(100)), "after"]
    consumer.close()
    until(cluster, lambda: first not in isr_of(cluster))
    cluster.restart(first)
    until(cluster, lambda: isr_of(cluster) == [0, 1, 2])
    until(cluster, lambda: held(cluster, first).log.end_offset == 101)


def test_a_returning_follower_catches_up_and_rejoins_the_isr(cluster: LocalCluster) -> None:
    cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = cluster.producer(value=bytes)
    leader = leader_of(cluster)
    away = (leader + 1) % 3
    cluster.stop_broker(away)
    for _ in range(200):
        producer.send("t", b"x" * 100_000)
    producer.flush(PATIENCE_S)
    cluster.restart(away)
    until(cluster, lambda: held(cluster, away).log.end_offset == 200)
    until(cluster, lambda: isr_of(cluster) == [0, 1, 2])
    assert leader_of(cluster) == leader


def test_records_are_deleted_on_every_replica(cluster: LocalCluster) -> None:
    cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = cluster.producer(value=str)
    for number in range(10):
        producer.send("t", f"{number}")
    producer.flush(PATIENCE_S)
    with cluster.admin() as admin:
        assert admin.offsets.delete_before({TopicPartition("t", 0): 7}) == {
            TopicPartition("t", 0): 7
        }
    assert cluster.call(lambda: [held(cluster, b).log.start_offset for b in range(3)]) == [7, 7, 7]


def test_acks_all_is_refused_with_too_few_in_sync_replicas(cluster: LocalCluster) -> None:
    cluster.create_topic(
        "t", partitions=1, replication_factor=3, configs={"min.insync.replicas": "2"}
    )
    producer = cluster.producer(value=str, settings={"message.timeout.ms": 2000})
    producer.send("t", "one").result(PATIENCE_S)
    leader = leader_of(cluster)
    for broker_id in range(3):
        if broker_id != leader:
            cluster.stop_broker(broker_id)
    until(cluster, lambda: isr_of(cluster) == [leader])
    with pytest.raises(KafkaError):
        producer.send("t", "two").result(PATIENCE_S)
    assert cluster.call(lambda: held(cluster, leader).log.end_offset) == 1
