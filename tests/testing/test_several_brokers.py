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
        assert {each.leader for each in image.topics["orders"].partitions} == {0, 1, 2}
        producer = cluster.producer(value=str)
        sent = [producer.send("orders", f"{each}", partition=each % 6) for each in range(60)]
        assert {each.result(PATIENCE_S).partition for each in sent} == set(range(6))
        consumer = cluster.consumer(value=str)
        consumer.assign({TopicPartition("orders", each): 0 for each in range(6)})
        read = {record.value for record in consumer.take(60, PATIENCE_S)}
        assert read == {f"{each}" for each in range(60)}
        for each in range(3):
            assert list(cluster.directory_of(each).glob("orders-*"))


def test_a_broker_that_was_killed_is_gone_for_the_others_and_comes_back_with_its_data() -> None:
    with LocalCluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        producer = cluster.producer(value=str)
        for each in range(3):
            producer.send("orders", "before", partition=each).result(PATIENCE_S)
        cluster.kill(2)
        assert not (cluster.directory_of(2) / ".kafka_cleanshutdown").exists()
        assert sorted(cluster.call(lambda: cluster.broker(0).image.brokers)) == [0, 1]
        epoch = cluster.call(lambda: cluster.broker(0).image.brokers[1].epoch)
        cluster.restart(2)
        cluster.restart(1)
        assert sorted(cluster.call(lambda: cluster.broker(0).image.brokers)) == [0, 1, 2]
        assert cluster.call(lambda: cluster.broker(0).image.brokers[1].epoch) > epoch
        for each in range(3):
            producer.send("orders", "after", partition=each).result(PATIENCE_S)
        consumer = cluster.consumer(value=str)
        consumer.assign({TopicPartition("orders", each): 0 for each in range(3)})
        values = sorted(record.value for record in consumer.take(6, PATIENCE_S))
        assert values == ["after"] * 3 + ["before"] * 3


def test_one_broker_can_be_killed_in_a_thread_too() -> None:
    with LocalCluster() as cluster:
        producer = cluster.producer(value=str)
        producer.send("orders", "before").result(PATIENCE_S)
        cluster.kill()
        with pytest.raises(RuntimeError, match="does not run"):
            cluster.kill()
        cluster.restart()
        producer.send("orders", "after").result(PATIENCE_S)
        with cluster.consumer("orders", value=str) as consumer:
            assert [each.value for each in consumer.take(2, PATIENCE_S)] == ["before", "after"]


def test_the_cluster_remembers_its_topics(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with LocalCluster(brokers=2, directory=tmp_path) as cluster:
        cluster.create_topic("orders", partitions=2, configs={"retention.ms": "60000"})
    with LocalCluster(brokers=2, directory=tmp_path) as cluster, cluster.admin() as admin:
        assert admin.topics.names() == ["orders"]
    assert set(threading.enumerate()) == threads


def test_which_broker_has_to_be_said() -> None:
    with pytest.raises(ValueError, match=r"node\.id"):
        LocalCluster(brokers=2, config={"node.id": "7"})
    with LocalCluster(brokers=2) as cluster, pytest.raises(ValueError, match="which of"):
        cluster.kill()
