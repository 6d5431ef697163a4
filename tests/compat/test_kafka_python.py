"""kafka-python, beyond its own suite (test_kafka_python_own_suite.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_confluent import make_topic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, OffsetSpec
from kafka.errors import (
    InvalidTopicError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NoError,
    UnknownMemberIdError,
)

PATIENCE_S = 60.0
Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as client:
        yield client


def send(bootstrap: str, topic: str, values: list[bytes], **config: Any) -> list[Any]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, **config)
    try:
        futures = [producer.send(topic, value, partition=0) for value in values]
        return [future.get(PATIENCE_S) for future in futures]
    finally:
        producer.close()


def reader(bootstrap: str, *topics: str, **config: Any) -> KafkaConsumer:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **config}
    return KafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} came"
        for batch in consumer.poll(timeout_ms=1500, max_records=count - len(records)).values():
            records += batch
    return records


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_setting(bootstrap: str, topic_name: str, acks: int | str) -> None:
    make_topic(bootstrap, topic_name)
    config = {} if acks == "all" else {"enable_idempotence": False}
    send(bootstrap, topic_name, [b"%d" % i for i in range(50)], acks=acks, **config)
    with reader(bootstrap, topic_name) as consumer:
        assert [int(record.value) for record in take(consumer, 50)] == list(range(50))


def test_headers_tombstones_and_timestamps(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        headers = [("a", b"1"), ("a", b"2"), ("b", b"")]
        producer.send(topic_name, b"v", key=b"k", headers=headers, timestamp_ms=1_700_000_000_000)
        producer.send(topic_name, None, key=b"gone").get(PATIENCE_S)
    with reader(bootstrap, topic_name) as consumer:
        first, second = take(consumer, 2)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 1_700_000_000_000)
    assert list(first.headers) == headers
    assert (second.key, second.value) == (b"gone", None)


def test_refusals(bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        send(bootstrap, topic_name, [b"x" * 5000])
    with pytest.raises((InvalidTopicError, KafkaTimeoutError, ValueError)):
        send(bootstrap, "no spaces", [b"v"], max_block_ms=5000)
    assert send(bootstrap, topic_name, [b"small"])[0].offset == 0


def test_static_member_and_its_removal(
    bootstrap: str, topic_name: str, group_name: str, admin: KafkaAdminClient
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, [b"v"])
    config = {"group_id": group_name, "group_instance_id": "rock"}
    with reader(bootstrap, topic_name, **config) as consumer:
        take(consumer, 1)
    members = admin.describe_groups([group_name])[group_name]["members"]
    assert [member["group_instance_id"] for member in members] == ["rock"]
    admin.remove_group_members(group_name, [MemberToRemove(group_instance_id="rock")])
    assert admin.describe_groups([group_name])[group_name]["members"] == []


def test_pattern_subscription(
    bootstrap: str, unique: Callable[[str], str], group_name: str
) -> None:
    prefix = unique("kp")
    for name in ("a", "b"):
        make_topic(bootstrap, f"{prefix}-{name}")
        send(bootstrap, f"{prefix}-{name}", [name.encode()])
    with reader(bootstrap, group_id=group_name) as consumer:
        consumer.subscribe(pattern=f"^{prefix}-.*")
        assert sorted(record.value for record in take(consumer, 2)) == [b"a", b"b"]


def test_rebalance_moves_partitions(
    bootstrap: str, topic_name: str, group_name: str, until: Until
) -> None:
    make_topic(bootstrap, topic_name, partitions=4)
    stop = threading.Event()
    owned: dict[int, set[TopicPartition]] = {}

    def member(number: int, leave: threading.Event) -> None:
        config = {"group_id": group_name, "heartbeat_interval_ms": 300}
        with reader(bootstrap, topic_name, **config) as consumer:
            while not (stop.is_set() or leave.is_set()):
                # kafka-python 3.0 loses a join whose last reply comes after the poll has timed
                # out, so the timeout is long beside its metadata backoff of 100 ms.
                consumer.poll(timeout_ms=1500)
                owned[number] = set(consumer.assignment())
        owned.pop(number)

    def sizes() -> list[int]:
        return sorted(len(partitions) for partitions in owned.values())

    leaves = [threading.Event() for _ in range(2)]
    threads = [threading.Thread(target=member, args=(i, leaves[i])) for i in range(2)]
    try:
        threads[0].start()
        until(lambda: sizes() == [4], "the first member has all")
        threads[1].start()
        until(lambda: sizes() == [2, 2], "two members share")
        leaves[0].set()
        until(lambda: sizes() == [4], "the one that stays has all")
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join(PATIENCE_S)


def test_commit_async_and_committed(bootstrap: str, topic_name: str, group_name: str) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)
    outcomes: list[Any] = []
    with reader(bootstrap, group_id=group_name) as consumer:
        consumer.assign([partition])
        assert consumer.committed(partition) is None
        consumer.commit_async(
            {partition: OffsetAndMetadata(3, "three", -1)},
            callback=lambda offsets, outcome: outcomes.append(outcome),
        )
        deadline = time.monotonic() + PATIENCE_S
        while not outcomes and time.monotonic() < deadline:
            consumer.poll(timeout_ms=100)
        assert not isinstance(outcomes[0], Exception)
        assert consumer.committed(partition) == 3
        consumer.commit({partition: OffsetAndMetadata(4, "four", -1)})
        assert consumer.committed(partition, metadata=True).metadata == "four"


def test_alter_reset_and_delete_group_offsets(
    bootstrap: str, topic_name: str, group_name: str, admin: KafkaAdminClient
) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 0)
    send(bootstrap, topic_name, [b"v"] * 10)
    altered = admin.alter_group_offsets(group_name, {partition: OffsetAndMetadata(6, "m", -1)})
    assert altered == {partition: NoError}
    found = admin.list_group_offsets({group_name: None})
    assert found[group_name][partition].offset == 6
    admin.reset_group_offsets(group_name, {partition: OffsetSpec.EARLIEST})
    assert admin.list_group_offsets(group_name)[group_name][partition].offset == 0
    assert admin.delete_group_offsets(group_name, [partition]) == {partition: NoError}
    assert partition not in admin.list_group_offsets(group_name)[group_name]


def test_offsets_of_a_group_in_use_are_protected(
    bootstrap: str, topic_name: str, group_name: str, admin: KafkaAdminClient
) -> None:
    make_topic(bootstrap, topic_name)
    send(bootstrap, topic_name, [b"v"])
    partition = TopicPartition(topic_name, 0)
    with reader(bootstrap, topic_name, group_id=group_name) as consumer:
        take(consumer, 1)
        altered = admin.alter_group_offsets(group_name, {partition: OffsetAndMetadata(1, "", -1)})
        assert altered == {partition: UnknownMemberIdError}


def test_configs(bootstrap: str, topic_name: str, admin: KafkaAdminClient, until: Until) -> None:
    make_topic(bootstrap, topic_name)

    def value(name: str) -> str:
        described = admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic_name)],
            include_synonyms=True, config_filter="all",
        )  # fmt: skip
        found: str = described["topic"][topic_name][name]["value"]
        return found

    def change(configs: Any) -> ConfigResource:
        return ConfigResource(ConfigResourceType.TOPIC, topic_name, configs)

    admin.alter_configs(
        [change({"retention.ms": "88000", "cleanup.policy": ("APPEND", "compact")})]
    )
    until(lambda: value("retention.ms") == "88000", "it is set")
    assert value("cleanup.policy") == "delete,compact"
    admin.reset_configs([change(["retention.ms"])])
    until(lambda: value("retention.ms") == "604800000", "it is reset")


def test_cluster_features_and_versions(bootstrap: str, admin: KafkaAdminClient) -> None:
    cluster = admin.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert isinstance(admin.describe_features(), dict)
    versions = admin.api_versions()
    assert versions


def test_max_timestamp_and_isolation(
    bootstrap: str, topic_name: str, admin: KafkaAdminClient
) -> None:
    make_topic(bootstrap, topic_name)
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for at_ms in (1000, 9000, 2000):
            producer.send(topic_name, b"v", timestamp_ms=1_700_000_000_000 + at_ms).get(PATIENCE_S)
    partition = TopicPartition(topic_name, 0)
    found = admin.list_partition_offsets({partition: OffsetSpec.MAX_TIMESTAMP})[partition]
    assert (found.offset, found.timestamp) == (1, 1_700_000_009_000)
    with reader(bootstrap, topic_name, isolation_level="read_committed") as consumer:
        assert len(take(consumer, 3)) == 3
