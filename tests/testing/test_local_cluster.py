from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from ottla.client import KafkaError, Producer, ResourceType
from ottla.cluster.store import MetaStoreError
from ottla.config import ConfigError
from ottla.errors import ErrorCode
from ottla.registry.server import RegistryServer
from ottla.schemas.framing import with_id
from ottla.testing import LocalCluster, ManualClock
from ottla.testing.local_cluster import memory_disk

PATIENCE_S = 60.0


def produce(servers: str, topic: str, *values: bytes) -> None:
    """With confluent-kafka alone, as in a project without ottla.client."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE_S) == 0
    producer.close()


def consume(servers: str, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    messages = consumer.consume(count, PATIENCE_S)
    assert [message.error() for message in messages] == [None] * count
    consumer.close()
    return [message.value() for message in messages]


# Fixtures


def test_a_test_gets_its_own_broker(kafka: LocalCluster) -> None:
    produce(kafka.bootstrap_servers, "orders", b"beer", b"bread")
    assert consume(kafka.bootstrap_servers, "orders", 2) == [b"beer", b"bread"]


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_fresh_broker_has_no_data_of_earlier_tests(kafka: LocalCluster, time: str) -> None:
    with kafka.admin() as admin:
        assert admin.topics.names() == []
    kafka.create_topic("left-behind")


@pytest.mark.parametrize("topic", ["one", "two"])
def test_tests_share_the_broker_of_the_session(kafka_session: LocalCluster, topic: str) -> None:
    produce(kafka_session.bootstrap_servers, topic, topic.encode())
    assert consume(kafka_session.bootstrap_servers, topic, 1) == [topic.encode()]


# Clients


def test_its_own_clients_write_and_read(kafka: LocalCluster) -> None:
    kafka.create_topic("orders", partitions=3, configs={"retention.ms": "60000"})
    producer = kafka.producer(key=str, value=str)
    sent = [producer.send("orders", f"order {number}", key=f"{number}") for number in range(10)]
    assert {future.result(PATIENCE_S).partition for future in sent} == {0, 1, 2}
    consumer = kafka.consumer("orders", group="readers", value=str)
    read = [consumer.poll(PATIENCE_S) for _ in range(10)]
    assert {record.value for record in read if record} == {
        f"order {number}" for number in range(10)
    }


def test_a_share_consumer_begins_with_the_first_record(kafka: LocalCluster) -> None:
    with kafka.producer() as producer:
        producer.send("orders", b"one beer").result()
    with kafka.share_consumer("orders", group="bar") as consumer:
        record = consumer.poll(PATIENCE_S)
        assert record is not None
        assert record.value == b"one beer"


def test_a_test_chooses_where_a_share_group_starts(kafka: LocalCluster) -> None:
    name = "share.auto.offset.reset"
    kafka.create_topic("orders")
    with kafka.admin() as admin:
        admin.configs.alter(ResourceType.GROUP, "bar", set={name: "latest"})
        kafka.share_consumer("orders", group="bar").close()
        configs = admin.configs.describe(ResourceType.GROUP, "bar")
    assert [config.value for config in configs if config.name == name] == ["latest"]


def test_a_topic_is_created_once(kafka: LocalCluster) -> None:
    kafka.create_topic("orders")
    with pytest.raises(KafkaError) as raised:
        kafka.create_topic("orders")
    assert raised.value.code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_configs_of_a_created_topic_apply(kafka: LocalCluster) -> None:
    kafka.create_topic("orders", 2, {"cleanup.policy": "compact"})
    with kafka.admin() as admin:
        topic = admin.topics.describe("orders")["orders"]
        configs = admin.configs.describe_topics(["orders"])["orders"]
    assert not isinstance(topic, KafkaError)
    assert len(topic.partitions) == 2
    assert isinstance(configs, list)
    assert {config.name: config.value for config in configs}["cleanup.policy"] == "compact"


def test_a_test_chooses_the_settings_of_a_producer(kafka: LocalCluster) -> None:
    with pytest.raises(KafkaError) as raised:
        kafka.producer(settings={"acks": "many"})
    assert raised.value.code == ErrorCode.INVALID_CONFIG
    with kafka.producer(delivery="at_most_once", settings={"acks": 1}) as producer:
        assert producer.send("orders", b"beer").result(PATIENCE_S).offset == 0


def test_stop_closes_open_clients() -> None:
    threads = set(threading.enumerate())
    with LocalCluster() as cluster:
        producer = cluster.producer(value=str)
        sending = producer.send("orders", "beer")
        consumer = cluster.consumer("orders", group="readers")
        assert consumer.poll(PATIENCE_S) is not None
    assert sending.done()
    assert set(threading.enumerate()) == threads
    with pytest.raises(RuntimeError, match="closed"):
        consumer.raw.poll(0)


# Start and stop


def test_restart_keeps_the_data_the_port_and_the_groups() -> None:
    with LocalCluster() as cluster:
        producer = cluster.producer(value=str)
        producer.send("orders", "before").result(PATIENCE_S)
        with cluster.consumer("orders", group="readers", value=str) as consumer:
            first = consumer.poll(PATIENCE_S)
        port = cluster.port
        cluster.restart()
        assert cluster.port == port
        producer.send("orders", "after").result(PATIENCE_S)
        with cluster.consumer("orders", group="readers", value=str) as consumer:
            second = consumer.poll(PATIENCE_S)
    assert first is not None
    assert second is not None
    assert (first.value, second.value) == ("before", "after")


def test_a_given_directory_is_kept(tmp_path: Path) -> None:
    with LocalCluster(directory=tmp_path) as cluster:
        produce(cluster.bootstrap_servers, "orders", b"beer")
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0
    with LocalCluster(directory=tmp_path) as cluster:
        assert consume(cluster.bootstrap_servers, "orders", 1) == [b"beer"]


def test_nothing_is_left_behind() -> None:
    with LocalCluster() as cluster:  # imports of the first one keep files open
        produce(cluster.bootstrap_servers, "orders", b"beer")
    before = (open_descriptors(), set(threading.enumerate()))
    with LocalCluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.producer().send("orders", b"beer").result(PATIENCE_S)
        directory = cluster.directory
        assert (directory / "orders-0").is_dir()
    eventually(lambda: open_descriptors() <= before[0])  # librdkafka's threads need time to end
    assert set(threading.enumerate()) == before[1]
    assert not directory.exists()


def test_a_cluster_can_be_started_again() -> None:
    cluster = LocalCluster()
    for _ in range(2):
        cluster.start()
        with cluster.admin() as admin:
            assert admin.topics.names() == []
        cluster.create_topic("orders")
        cluster.stop()
        cluster.stop()


def test_clusters_live_side_by_side() -> None:
    with LocalCluster() as one, LocalCluster() as other:
        assert one.port != other.port
        one.create_topic("of-one")
        with other.admin() as admin:
            assert admin.topics.names() == []


def test_a_failed_start_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    cluster = LocalCluster(config={"num.partitions": "many"})
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        cluster.start()
    with LocalCluster(directory=tmp_path), pytest.raises(MetaStoreError, match="in use"):
        LocalCluster(directory=tmp_path).start()
    assert set(threading.enumerate()) == threads
    with pytest.raises(RuntimeError, match="not started"):
        _ = cluster.directory


def test_a_cluster_that_is_not_started_has_no_address() -> None:
    cluster = LocalCluster()
    for ask in (lambda: cluster.port, lambda: cluster.bootstrap_servers, cluster.restart):
        with pytest.raises(RuntimeError, match="not started"):
            ask()
    with cluster, pytest.raises(RuntimeError, match="already"):
        cluster.start()


# What it can't do


@pytest.mark.parametrize("name", ["listeners", "log.dirs"])
def test_reserved_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        LocalCluster(config={name: "x"})


def test_a_broker_process_accepts_no_clock() -> None:
    with pytest.raises(ValueError, match="clock"):
        LocalCluster(process=True, clock=ManualClock())


# Time


def test_a_test_moves_the_time_of_the_broker() -> None:
    clock = ManualClock(now_ms=1_000_000)
    config = {"log.message.timestamp.type": "LogAppendTime"}
    with LocalCluster(config=config, clock=clock) as cluster:
        producer: Producer[str, bytes] = cluster.producer()
        first = producer.send("orders", b"beer").result(PATIENCE_S)
        clock.advance(5)
        second = producer.send("orders", b"bread").result(PATIENCE_S)
    assert (first.timestamp_ms, second.timestamp_ms) == (1_000_000, 1_000_005)


def test_records_expire_when_the_test_says_so() -> None:
    clock = ManualClock()
    config = {
        "log.message.timestamp.type": "LogAppendTime",
        "log.retention.check.interval.ms": "5",
        "log.retention.ms": "60000",
    }
    with LocalCluster(config=config, clock=clock) as cluster:
        cluster.producer().send("orders", b"beer").result(PATIENCE_S)
        reader = cluster.consumer().raw
        partition = confluent_kafka.TopicPartition("orders", 0)
        assert reader.get_watermark_offsets(partition, PATIENCE_S) == (0, 1)
        clock.advance(60_001)
        eventually(lambda: reader.get_watermark_offsets(partition, PATIENCE_S) == (1, 1))


# Where its files are


def test_files_are_in_memory_if_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    folder = str(tmp_path)
    assert memory_disk(folder, bytes_min=1) == folder
    assert memory_disk(folder, bytes_min=1 << 60) is None
    assert memory_disk(f"{folder}/none", bytes_min=1) is None


def test_tmpdir_decides_where_files_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert memory_disk() is None


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.01)


def test_the_broker_of_the_fixture_kafka_asks_the_fixture_registry(
    kafka: LocalCluster, registry: RegistryServer
) -> None:
    kafka.create_topic("fixed", configs={"confluent.value.schema.validation": "true"})
    with kafka.producer() as producer, pytest.raises(KafkaError) as refused:
        producer.send("fixed", with_id(77, b"x")).result(60)
    assert refused.value.code == ErrorCode.INVALID_RECORD
