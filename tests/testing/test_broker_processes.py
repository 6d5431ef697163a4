"""LocalCluster(brokers=3, process=True): processes that share a real ZooKeeper."""

from __future__ import annotations

import time

import pytest

from ottla.client import Admin, TopicPartition
from ottla.client.protocol.connection import BrokerConnection
from ottla.testing import LocalCluster
from ottla.wire.apis import ApiKey
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]

PATIENCE_S = 60.0


def leaders(cluster: LocalCluster, topic: str, port: int | None = None) -> dict[int, int]:
    servers = cluster.bootstrap_servers if port is None else f"127.0.0.1:{port}"
    with Admin(servers) as admin:
        found = admin.topics.describe(topic)[topic]
    assert not isinstance(found, Exception)
    return {partition.partition: partition.leader for partition in found.partitions}


def test_separate_broker_processes_form_one_cluster() -> None:
    with LocalCluster(brokers=3, process=True) as cluster:
        cluster.create_topic("orders", partitions=6)
        assert set(leaders(cluster, "orders").values()) == {0, 1, 2}
        producer = cluster.producer(value=str)
        for number in range(60):
            producer.send("orders", f"{number}", partition=number % 6)
        producer.flush(PATIENCE_S)
        consumer = cluster.consumer(value=str)
        consumer.assign({TopicPartition("orders", number): 0 for number in range(6)})
        values = {record.value for record in consumer.take(60, PATIENCE_S)}
        assert values == {f"{number}" for number in range(60)}
        cluster.kill(2)
        cluster.restart(2)  # at once: its old session has not expired
        producer.send("orders", "after", partition=5).result(PATIENCE_S)


def test_a_broker_that_is_paused_answers_again_when_it_is_resumed() -> None:
    with LocalCluster(brokers=2, process=True) as cluster:
        cluster.create_topic("orders", partitions=2)
        producer = cluster.producer(value=str)
        led_by = leaders(cluster, "orders")
        cluster.pause(1)
        led = next(index for index, leader in led_by.items() if leader == 1)
        sent = producer.send("orders", "late", partition=led)
        time.sleep(0.5)
        assert not sent.done()
        cluster.resume(1)
        sent.result(PATIENCE_S)


def test_a_broker_that_slept_through_its_session_comes_back_in_a_new_epoch() -> None:
    config = {"zookeeper.session.timeout.ms": "2000"}
    with LocalCluster(brokers=3, process=True, config=config) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.pause(2)
        deadline = time.monotonic() + PATIENCE_S
        while 2 in leaders(cluster, "orders", cluster.port_of(0)).values():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cluster.resume(2)
        producer = cluster.producer(value=str)
        for partition in range(3):
            producer.send("orders", "again", partition=partition).result(PATIENCE_S)
        while "Lost the registration of broker 2" not in cluster.log(2):  # it has just woken up
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_zookeeper_may_die_and_return() -> None:
    with LocalCluster(brokers=2, process=True) as cluster:
        cluster.create_topic("orders", partitions=2)
        producer = cluster.producer(value=str)
        cluster.zookeeper.servers[0].kill()
        for partition in range(2):
            producer.send("orders", "without", partition=partition).result(PATIENCE_S)
        cluster.zookeeper.servers[0].start()
        cluster.create_topic("more", partitions=2)
        for partition in range(2):
            producer.send("more", "with", partition=partition).result(PATIENCE_S)


def test_each_broker_can_have_properties_of_its_own() -> None:
    racks = {0: "here", 1: "there"}
    with LocalCluster(
        brokers=2, process=True, each=lambda broker_id: {"broker.rack": racks[broker_id]}
    ) as cluster:
        line = BrokerConnection("127.0.0.1", cluster.port, settings={}, timeout_s=PATIENCE_S)
        answer = line.call(MetadataRequest([]), ApiKey.METADATA, MetadataResponse)
        line.close()
        assert {broker.node_id: broker.rack for broker in answer.brokers} == racks
