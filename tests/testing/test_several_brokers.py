"""LocalCluster(brokers=3): several brokers on one loop, which share their metadata."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.client import TopicPartition
from ottla.testing import LocalCluster

PATIENCE_S = 60.0


def test_every_broker_leads_and_serves_its_part() -> None:
    with LocalCluster(brokers=3) as cluster:
        assert len(cluster.bootstrap_servers.split(",")) == 3
        cluster.create_topic("orders", partitions=6)
        image = cluster.call(lambda: cluster.broker(2).image)
        assert sorted(image.brokers) == [0, 1, 2]
        assert {partition.leader for partition in image.topics["orders"].partitions} == {0, 1, 2}
        producer = cluster.producer(value=str)
        sent = [producer.send("orders", f"{number}", partition=number % 6) for number in range(60)]
        assert {future.result(PATIENCE_S).partition for future in sent} == set(range(6))
        consumer = cluster.consumer(value=str)
        consumer.assign({TopicPartition("orders", number): 0 for number in range(6)})
        read = {record.value for record in consumer.take(60, PATIENCE_S)}
        assert read == {f"{number}" for number in range(60)}
        for number in range(3):
            assert list(cluster.directory_of(number).glob("orders-*"))


def test_a_killed_broker_disappears_and_returns_with_its_data() -> None:
    with LocalCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        producer = cluster.producer(value=str)
        for number in range(3):
            producer.send("orders", "before", partition=number).result(PATIENCE_S)
        cluster.kill(2)
        assert not (cluster.directory_of(2) / ".kafka_cleanshutdown").exists()
        assert sorted(cluster.call(lambda: cluster.broker(0).image.brokers)) == [0, 1]
        epoch = cluster.call(lambda: cluster.broker(0).image.brokers[1].epoch)
        cluster.restart(2)
        cluster.restart(1)
        assert sorted(cluster.call(lambda: cluster.broker(0).image.brokers)) == [0, 1, 2]
        assert cluster.call(lambda: cluster.broker(0).image.brokers[1].epoch) > epoch
        for number in range(3):
            producer.send("orders", "after", partition=number).result(PATIENCE_S)
        consumer = cluster.consumer(value=str)
        consumer.assign({TopicPartition("orders", number): 0 for number in range(3)})
        values = sorted(record.value for record in consumer.take(6, PATIENCE_S))
        assert values == ["after"] * 3 + ["before"] * 3


def test_a_broker_in_a_thread_can_be_killed_too() -> None:
    with LocalCluster() as cluster:
        producer = cluster.producer(value=str)
        producer.send("orders", "before").result(PATIENCE_S)
        cluster.kill()
        with pytest.raises(RuntimeError, match="does not run"):
            cluster.kill()
        cluster.restart()
        producer.send("orders", "after").result(PATIENCE_S)
        with cluster.consumer("orders", value=str) as consumer:
            assert [record.value for record in consumer.take(2, PATIENCE_S)] == ["before", "after"]


def test_the_cluster_remembers_its_topics(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with LocalCluster(brokers=2, directory=tmp_path) as cluster:
        cluster.create_topic("orders", partitions=2, configs={"retention.ms": "60000"})
    with LocalCluster(brokers=2, directory=tmp_path) as cluster, cluster.admin() as admin:
        assert admin.topics.names() == ["orders"]
    assert set(threading.enumerate()) == threads


def test_calls_on_one_of_several_brokers_need_its_id() -> None:
    with pytest.raises(ValueError, match=r"node\.id"):
        LocalCluster(brokers=2, config={"node.id": "7"})
    with LocalCluster(brokers=2) as cluster, pytest.raises(ValueError, match="which of"):
        cluster.kill()
