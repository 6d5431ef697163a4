from __future__ import annotations

import uuid

import pytest

from ottla.client import Admin, Consumer, KafkaError, Producer, TopicPartition
from ottla.client.configs import ConfigSource, ResourceType
from ottla.client.group_descriptions import GroupDescription
from ottla.client.offsets import EARLIEST, MAX_TIMESTAMP, OffsetAt
from ottla.client.topics import NewTopic, TopicDescription
from ottla.errors import ErrorCode


def test_a_topic_is_created_described_grown_and_deleted(admin: Admin) -> None:
    name = f"a-{uuid.uuid4().hex[:8]}"
    admin.topics.create(name, 2, configs={"retention.ms": "1000"})
    assert name in admin.topics.names()
    admin.topics.grow(name, 4)
    topic = admin.topics.describe(name)[name]
    assert isinstance(topic, TopicDescription)
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2, 3]
    assert topic.partitions[0].isr == topic.partitions[0].replicas
    assert admin.topics.name_of(topic.topic_id) == name
    assert admin.topics.delete(name) == {name: None}
    assert name not in admin.topics.names()


def test_many_partitions_come_in_several_answers(admin: Admin) -> None:
    name = f"a-{uuid.uuid4().hex[:8]}"
    admin.topics.create(name, 7)
    topic = admin.topics.describe(name, partitions_per_response=3)[name]
    assert isinstance(topic, TopicDescription)
    assert [partition.partition for partition in topic.partitions] == list(range(7))


def test_a_topic_that_exists_can_not_be_created(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError, match="already exists") as caught:
        admin.topics.create(topic)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_each_topic_has_its_own_result(admin: Admin, topic: str) -> None:
    new = f"{topic}-new"
    results = admin.topics.create_all([NewTopic(topic), NewTopic(new, 1)])
    assert results[new] is None
    assert isinstance(results[topic], KafkaError)
    gone = admin.topics.delete(new, "no-such-topic")
    assert gone[new] is None
    assert gone["no-such-topic"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[union-attr]


def test_an_unknown_topic_has_no_description(admin: Admin) -> None:
    found = admin.topics.describe("no-such-topic")["no-such-topic"]
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_configs_are_set_and_unset(admin: Admin, topic: str) -> None:
    admin.configs.alter(
        ResourceType.TOPIC,
        topic,
        set={"retention.ms": "5000"},
        append={"cleanup.policy": "compact"},
    )
    found = {config.name: config for config in admin.configs.describe(ResourceType.TOPIC, topic)}
    assert found["retention.ms"].value == "5000"
    assert found["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert found["cleanup.policy"].value == "delete,compact"
    assert [synonym.source for synonym in found["cleanup.policy"].synonyms] == [
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DEFAULT_CONFIG,
    ]
    assert (found["retention.ms"].type, found["preallocate"].type) == ("long", "boolean")
    admin.configs.alter(ResourceType.TOPIC, topic, delete=["retention.ms"])
    after = {config.name: config for config in admin.configs.describe(ResourceType.TOPIC, topic)}
    assert after["retention.ms"].source is ConfigSource.DEFAULT_CONFIG


def test_an_unknown_config_is_refused(admin: Admin, topic: str) -> None:
    with pytest.raises(KafkaError, match="nonsense") as caught:
        admin.configs.alter(ResourceType.TOPIC, topic, set={"nonsense": "1"})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_brokers_configs_come_from_that_broker(admin: Admin) -> None:
    node = admin.cluster().nodes[0]
    found = {
        config.name: config for config in admin.configs.describe(ResourceType.BROKER, str(node.id))
    }
    assert found["num.partitions"].type == "int"
    with pytest.raises(KafkaError) as caught:
        admin.configs.describe(ResourceType.BROKER, "999")
    assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_offsets_by_place_and_time(bootstrap: str, admin: Admin, topic: str) -> None:
    with Producer(bootstrap) as producer:
        for timestamp_ms in (100, 300, 200):
            producer.send(topic, b"x", timestamp_ms=timestamp_ms)
    partition = TopicPartition(topic, 0)

    def at(time_ms: int) -> int:
        found = admin.offsets.find([partition], time_ms)[partition]
        assert isinstance(found, OffsetAt)
        return found.offset

    assert (at(-1), at(EARLIEST), at(MAX_TIMESTAMP)) == (3, 0, 1)
    assert (at(150), at(301)) == (1, -1)
    assert at(-4) == 0  # earliest-local, which goes over a plain line


def test_records_are_deleted_up_to_an_offset(bootstrap: str, admin: Admin, topic: str) -> None:
    with Producer(bootstrap) as producer:
        for _ in range(4):
            producer.send(topic, b"x")
    partition = TopicPartition(topic, 0)
    assert admin.offsets.delete_before({partition: 2}) == {partition: 2}
    assert admin.offsets.delete_before({partition: -1}) == {partition: 4}
    refused = admin.offsets.delete_before({partition: 99})[partition]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_metadata_of_an_offset_is_kept(admin: Admin, topic: str, group: str) -> None:
    partition = TopicPartition(topic, 0)
    for length in range(33):
        admin.groups.alter_offsets(group, {partition: length}, metadata="é" * length)
        (found,) = admin.groups.offsets(group).values()
        assert (found.offset, found.metadata) == (length, "é" * length)


def test_a_groups_life(bootstrap: str, admin: Admin, topic: str, group: str) -> None:
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        producer.send(topic, b"x")
    with Consumer(
        bootstrap, topic, group=group, auto_offset_reset="earliest", settings={"client.id": "me"}
    ) as consumer:
        consumer.take(1)
        described = admin.groups.describe(group)[group]
        assert isinstance(described, GroupDescription)
        assert (described.state, described.type) == ("Stable", "Classic")
        assert described.members[0].client_id == "me"
        assert described.members[0].assignment == (partition,)
    assert admin.groups.offsets(group)[partition].offset == 1
    assert group in {listing.name for listing in admin.groups.list() if listing.state == "Empty"}
    admin.groups.alter_offsets(group, {partition: 0})
    assert admin.groups.offsets(group)[partition].offset == 0
    assert admin.groups.delete_offsets(group, [partition]) == {partition: None}
    assert admin.groups.offsets(group) == {}
    assert admin.groups.delete(group) == {group: None}
    assert group not in {listing.name for listing in admin.groups.list()}


def test_an_unknown_group_is_reported(admin: Admin, group: str) -> None:
    described = admin.groups.describe(group)[group]
    assert isinstance(described, KafkaError) or described.state == "Dead"
    with pytest.raises(KafkaError) as caught:
        admin.groups.delete_offsets(group, [TopicPartition("x", 0)])
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(admin.groups.delete(group)[group], KafkaError)


def test_the_cluster_and_its_log_directories(bootstrap: str, admin: Admin, topic: str) -> None:
    cluster = admin.cluster()
    assert len(cluster.cluster_id) == 22
    node = cluster.nodes[0]
    assert admin.api_versions(node.id)[18][0] == 0
    directory = admin.log_dirs(node.id)[0]
    assert directory.error_code == 0
    replica = directory.replicas[TopicPartition(topic, 0)]
    assert (replica.offset_lag, replica.is_future) == (0, False)


def test_an_unreachable_broker_is_reported_at_once() -> None:
    with Admin("localhost:1") as admin, pytest.raises(KafkaError, match="refused") as caught:
        admin.topics.names()
    assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
