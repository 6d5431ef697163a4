"""When a coordinator's broker dies, another one continues with what was committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client import Producer, TopicPartition
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import KafkaError
from ottla.testing import LocalCluster

PATIENCE_S = 60.0
COUNT = 3  # partitions of each topic: one for each broker
SETTINGS = {
    "offsets.topic.num.partitions": str(COUNT),
    "transaction.state.log.num.partitions": str(COUNT),
    "share.coordinator.state.topic.num.partitions": str(COUNT),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config=SETTINGS) as cluster:
        cluster.create_topic("t", COUNT, {"min.insync.replicas": "2"}, replication_factor=3)
        yield cluster


def leader_of(cluster: LocalCluster, topic: str, index: int) -> int:
    """The leader, according to any live broker."""
    alive = min(cluster._running)
    return cluster.call(lambda: cluster.broker(alive).image.topics[topic].partitions[index].leader)


def coordinator_of(cluster: LocalCluster, topic: str, name: str) -> int:
    return leader_of(cluster, topic, partition_for(name, COUNT))


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


def transactional(cluster: LocalCluster, name: str, **settings: Any) -> Producer[Any, Any]:
    return cluster.producer(
        delivery="exactly_once", transactional_id=name, value=str, settings=settings
    )


def read_committed(cluster: LocalCluster, count: int) -> list[str]:
    consumer = cluster.consumer(value=str, settings={"isolation.level": "read_committed"})
    consumer.assign({TopicPartition("t", partition): 0 for partition in range(COUNT)})
    return sorted(record.value for record in consumer.take(count, PATIENCE_S))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_keeps_its_offsets_and_its_members(cluster: LocalCluster, protocol: str) -> None:
    producer = cluster.producer(value=str, settings={"acks": "all"})
    for number in range(30):
        producer.send("t", f"before {number}", partition=number % COUNT).result(PATIENCE_S)
    consumer = cluster.consumer("t", group="g", value=str, settings={"group.protocol": protocol})
    before = sorted(record.value for record in consumer.take(30, PATIENCE_S))
    assert before == sorted(f"before {number}" for number in range(30))
    consumer.commit()
    died = coordinator_of(cluster, OFFSETS_TOPIC, "g")
    cluster.kill(died)
    places = [TopicPartition("t", index) for index in range(COUNT)]
    until(lambda: coordinator_of(cluster, OFFSETS_TOPIC, "g") not in (died, -1))
    assert consumer.committed(places) == dict.fromkeys(places, 10)
    for number in range(30):
        producer.send("t", f"after {number}", partition=number % COUNT).result(PATIENCE_S)
    after = sorted(record.value for record in consumer.take(30, PATIENCE_S))
    assert after == sorted(f"after {number}" for number in range(30))
    consumer.commit()
    consumer.close()
    second = cluster.consumer("t", group="g", value=str, settings={"group.protocol": protocol})
    assert second.committed(places) == dict.fromkeys(places, 20)


def test_the_next_coordinator_completes_decided_transactions(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = transactional(cluster, "x")
    died = coordinator_of(cluster, TRANSACTIONS_TOPIC, "x")
    post = cluster.broker(died).transactions._channel
    monkeypatch.setattr(post, "send", lambda *_: None)  # it dies before it has written a marker
    with producer.transaction():
        for index in range(COUNT):
            producer.send("t", f"{index}", partition=index)
    cluster.kill(died)
    assert read_committed(cluster, COUNT) == ["0", "1", "2"]
    with producer.transaction():  # and its producer continues
        producer.send("t", "3", partition=0)
    assert read_committed(cluster, COUNT + 1) == ["0", "1", "2", "3"]


def test_an_open_transaction_is_aborted_after_its_timeout(cluster: LocalCluster) -> None:
    producer = transactional(cluster, "x", **{"transaction.timeout.ms": 3000})
    producer.raw.begin_transaction()
    for index in range(COUNT):
        producer.send("t", "open", partition=index).result(PATIENCE_S)
    cluster.kill(coordinator_of(cluster, TRANSACTIONS_TOPIC, "x"))
    plain = cluster.producer(value=str, settings={"acks": "all"})
    for index in range(COUNT):
        plain.send("t", f"{index}", partition=index).result(PATIENCE_S)
    assert read_committed(cluster, COUNT) == ["0", "1", "2"]
    with pytest.raises(KafkaError):
        producer._call(producer.raw.commit_transaction, PATIENCE_S)


def test_a_new_producer_fences_the_previous_one(cluster: LocalCluster) -> None:
    zombie = transactional(cluster, "x")
    zombie.raw.begin_transaction()
    zombie.send("t", "of the zombie", partition=0).result(PATIENCE_S)
    cluster.kill(coordinator_of(cluster, TRANSACTIONS_TOPIC, "x"))
    heir = transactional(cluster, "x")
    with heir.transaction():
        heir.send("t", "of the heir", partition=0)
    with pytest.raises(KafkaError):
        zombie._call(zombie.raw.commit_transaction, PATIENCE_S)
    assert read_committed(cluster, 1) == ["of the heir"]


def test_a_transaction_survives_the_death_of_its_coordinator(cluster: LocalCluster) -> None:
    producer = transactional(cluster, "x")
    for round_ in range(3):
        with producer.transaction():
            for index in range(COUNT):
                producer.send("t", f"{round_} {index}", partition=index)
            if round_ == 1:
                producer.flush()
                cluster.kill(coordinator_of(cluster, TRANSACTIONS_TOPIC, "x"))
    expected = sorted(f"{round_} {index}" for round_ in range(3) for index in range(COUNT))
    assert read_committed(cluster, len(expected)) == expected


def test_a_share_group_survives_the_death_of_its_coordinator(cluster: LocalCluster) -> None:
    producer = cluster.producer(value=str, settings={"acks": "all"})
    for number in range(30):
        producer.send("t", f"before {number}", partition=number % COUNT).result(PATIENCE_S)
    consumer = cluster.share_consumer("t", group="workers", value=str)
    before = {next(iter(consumer)).value for _ in range(30)}
    assert before == {f"before {number}" for number in range(30)}
    consumer.accept()
    consumer.commit()
    cluster.kill(coordinator_of(cluster, OFFSETS_TOPIC, "workers"))
    for number in range(30):
        producer.send("t", f"after {number}", partition=number % COUNT).result(PATIENCE_S)
    after = {next(iter(consumer)).value for _ in range(30)}
    assert after == {f"after {number}" for number in range(30)}
