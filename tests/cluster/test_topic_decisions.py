"""Creating, growing and deleting topics, as plain functions."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from ottla.cluster import topics
from ottla.cluster.image import (
    BrokerRegistration,
    MetadataImage,
    PartitionRegistration,
    StoredConfig,
    TopicImage,
)
from ottla.cluster.store import Create, Delete, Put
from ottla.cluster.topics import RandomChoices, TopicSpec
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError

DICE = RandomChoices(topic_id=b"0123456789abcdef", start=0, shift=0)
CONFIG = ServerConfig({"num.partitions": "3", "default.replication.factor": "2"})


def broker(broker_id: int, rack: str | None = None) -> BrokerRegistration:
    return BrokerRegistration(broker_id, 1, (Listener("PLAINTEXT", "h", 9092, "PLAINTEXT"),), rack)


def topic(name: str, partitions: int = 1, replicas: tuple[int, ...] = (0, 1)) -> TopicImage:
    states = tuple(
        PartitionRegistration(i, replicas, replicas[0], 0, replicas, 4) for i in range(partitions)
    )
    return TopicImage(name, b"i" * 16, states, StoredConfig({"retention.ms": "1"}, 2), 7)


def image(*topics: TopicImage) -> MetadataImage:
    return MetadataImage(
        controller_epoch=5,
        brokers={broker_id: broker(broker_id) for broker_id in (0, 1, 2)},
        topics={topic.name: topic for topic in topics},
    )


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..." + "a", "__consumer_offsets"])
def test_good_topic_names(name: str) -> None:
    topics.check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "is longer than the max allowed length 249"),
        ("a b", "contains one or more characters other than ASCII alphanumerics"),
        ("a/b", "contains one or more characters"),
        ("ä", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
    ],
)
def test_bad_topic_names(name: str, reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        topics.check_topic_name(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message.startswith("Topic name is invalid: ")
    assert reason in caught.value.message


def test_create_topic_takes_defaults_and_writes_kafkas_layout() -> None:
    spec = TopicSpec("orders", configs={"retention.ms": "5"})
    created, writes = topics.create_topic(image(), CONFIG, spec, DICE)
    assert [partition.replicas for partition in created.partitions] == [(0, 1), (1, 2), (2, 0)]
    assert [partition.leader for partition in created.partitions] == [0, 1, 2]
    assert created.configs == {"retention.ms": "5"}
    found: Mapping[str, object] = {
        write.key: json.loads(write.value) for write in writes if isinstance(write, Create)
    }
    assert len(found) == len(writes)
    assert found["/brokers/topics/orders"] == {
        "version": 3,
        "topic_id": "MDEyMzQ1Njc4OWFiY2RlZg",
        "partitions": {"0": [0, 1], "1": [1, 2], "2": [2, 0]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert found["/config/topics/orders"] == {"version": 1, "config": {"retention.ms": "5"}}
    assert found["/brokers/topics/orders/partitions/2/state"] == {
        "version": 1,
        "controller_epoch": 5,
        "leader": 2,
        "leader_epoch": 0,
        "isr": [2, 0],
    }


def test_create_topic_with_its_own_assignment() -> None:
    spec = TopicSpec("t", assignment={1: [2, 0], 0: [1, 2]})
    created, _ = topics.create_topic(image(), CONFIG, spec, DICE)
    assert [partition.replicas for partition in created.partitions] == [(1, 2), (2, 0)]


REFUSED = [
    (TopicSpec("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
    (TopicSpec("old.one"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old.one' already exists."),
    (TopicSpec("old_one"), ErrorCode.INVALID_TOPIC_EXCEPTION, "collides with existing topic"),
    (TopicSpec("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "prohibited"),
    (TopicSpec("t", partition_count=0), ErrorCode.INVALID_PARTITIONS, "non-positive value"),
    (TopicSpec("t", partition_count=-2), ErrorCode.INVALID_PARTITIONS, "non-positive value"),
    (
        TopicSpec("t", partition_count=10_001),
        ErrorCode.POLICY_VIOLATION,
        "Excessively large number of partitions",
    ),
    (
        TopicSpec("t", replication_factor=0),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        TopicSpec("t", replication_factor=4),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "only 3 broker(s) are registered",
    ),
    (
        TopicSpec("t", configs={"no": "1"}),
        ErrorCode.INVALID_CONFIG,
        "Unknown topic config name: no",
    ),
    (TopicSpec("t", configs={"flush.ms": None}), ErrorCode.INVALID_CONFIG, "Null value"),
    (
        TopicSpec("t", partition_count=1, assignment={0: [0]}),
        ErrorCode.INVALID_REQUEST,
        "numPartitions was not set to -1",
    ),
    (
        TopicSpec("t", replication_factor=1, assignment={0: [0]}),
        ErrorCode.INVALID_REQUEST,
        "replication factor was not set to -1",
    ),
    (
        TopicSpec("t", assignment={1: [0]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "consecutive 0-based integer sequence",
    ),
    (
        TopicSpec("t", assignment={0: []}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "empty replica list",
    ),
    (TopicSpec("t", assignment={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
    (
        TopicSpec("t", assignment={0: [1, 1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "more than once",
    ),
    (
        TopicSpec("t", assignment={0: [0], 1: [0, 1]}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "not consistent with previous partitions",
    ),
]


@pytest.mark.parametrize(("spec", "code", "message"), REFUSED)
def test_create_topic_refuses(spec: TopicSpec, code: ErrorCode, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        topics.create_topic(image(topic("old.one")), CONFIG, spec, DICE)
    assert caught.value.code is code
    assert message in caught.value.message


def test_create_partitions_keeps_the_old_and_adds_the_new() -> None:
    known = image(topic("t", 2))
    first, *states = topics.create_partitions(known, "t", 4, None, DICE)
    assert isinstance(first, Put)
    assert first.version == 7
    assert json.loads(first.value)["partitions"] == {
        "0": [0, 1],
        "1": [0, 1],
        "2": [2, 0],
        "3": [0, 2],
    }
    assert [write.key for write in states] == [
        "/brokers/topics/t/partitions/2/state",
        "/brokers/topics/t/partitions/3/state",
    ]


@pytest.mark.parametrize(
    ("name", "count", "assignment", "code", "message"),
    [
        ("none", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        ("t", 1, None, ErrorCode.INVALID_PARTITIONS, "1 would not be an increase."),
        ("t", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "but only 0 assignment(s)"),
        ("t", 3, [[0]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
        ("t", 3, [[0, 7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        ("t", 99_999, None, ErrorCode.POLICY_VIOLATION, "Excessively large"),
    ],
)
def test_create_partitions_refuses(
    name: str,
    count: int,
    assignment: list[list[int]] | None,
    code: ErrorCode,
    message: str,
) -> None:
    with pytest.raises(KafkaError) as caught:
        topics.create_partitions(image(topic("t", 2)), name, count, assignment, DICE)
    assert caught.value.code is code
    assert message in caught.value.message


def test_delete_topic_deletes_configs_and_states_by_version() -> None:
    assert topics.delete_topic(image(topic("t", 2)), "t") == [
        Delete("/brokers/topics/t/partitions/0/state", 4),
        Delete("/brokers/topics/t/partitions/1/state", 4),
        Delete("/config/topics/t", 2),
        Delete("/brokers/topics/t", 7),
    ]
    with pytest.raises(KafkaError) as caught:
        topics.delete_topic(image(), "t")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_config_that_does_not_change_is_not_written() -> None:
    key = "/config/topics/t"
    assert topics.write_config(key, StoredConfig(), {}) == []
    assert topics.write_config(key, StoredConfig({"a": "1"}, 3), {"a": "1"}) == []
    value = b'{"version":1,"config":{"a":"1"}}'
    assert topics.write_config(key, StoredConfig(), {"a": "1"}) == [Create(key, value)]
    assert topics.write_config(key, StoredConfig({}, 3), {"a": "1"}) == [Put(key, value, 3)]
