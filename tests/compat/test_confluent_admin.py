"""librdkafka's AdminClient: topics, partitions, configs, groups, offsets, records, the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, read_all, refusal, take
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

Until = Callable[[Callable[[], object], str], None]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _topic_configs(admin: AdminClient, topic: str) -> dict[str, Any]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    entries: dict[str, Any] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return entries


def test_create_describe_and_delete_a_topic(
    admin: AdminClient, topic_name: str, until: Until
) -> None:
    new = NewTopic(topic_name, num_partitions=3, replication_factor=1)
    admin.create_topics([new])[topic_name].result(PATIENCE_S)
    until(lambda: topic_name in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is listed")
    described = admin.describe_topics(TopicCollection([topic_name]))[topic_name].result(PATIENCE_S)
    assert described.name == topic_name
    assert not described.is_internal
    assert str(described.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    assert [p.id for p in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert partition.leader.id == partition.replicas[0].id == partition.isr[0].id
    admin.delete_topics([topic_name])[topic_name].result(PATIENCE_S)
    until(lambda: topic_name not in admin.list_topics(timeout=PATIENCE_S).topics, "it is gone")
    future = admin.describe_topics(TopicCollection([topic_name]))[topic_name]
    assert refusal(future) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_recreated_topic_is_empty(
    admin: AdminClient, bootstrap: str, topic_name: str, until: Until
) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "old"}])
    first = admin.describe_topics(TopicCollection([topic_name]))[topic_name].result(PATIENCE_S)
    admin.delete_topics([topic_name])[topic_name].result(PATIENCE_S)
    until(lambda: topic_name not in admin.list_topics(timeout=PATIENCE_S).topics, "it is gone")
    make_topic(bootstrap, topic_name)
    again = admin.describe_topics(TopicCollection([topic_name]))[topic_name].result(PATIENCE_S)
    assert str(again.topic_id) != str(first.topic_id)
    produce(bootstrap, topic_name, [{"value": "new"}])
    assert [(m.offset(), m.value()) for m in read_all(bootstrap, topic_name, 1)] == [(0, b"new")]


def test_create_topics_refusals(
    admin: AdminClient, bootstrap: str, unique: Callable[[str], str]
) -> None:
    there = make_topic(bootstrap, unique("there"))
    cases = {
        there: (NewTopic(there, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        "bad name": (NewTopic("bad name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        "rf": (NewTopic(unique("rf"), 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        "zero": (NewTopic(unique("zero"), 0, 1), KafkaError.INVALID_PARTITIONS),
        "config": (NewTopic(unique("c"), 1, 1, config={"no.such": "x"}), KafkaError.INVALID_CONFIG),
        "value": (
            NewTopic(unique("v"), 1, 1, config={"retention.ms": "soon"}),
            KafkaError.INVALID_CONFIG,
        ),
        "policy": (
            NewTopic(unique("p"), 1, 1, config={"cleanup.policy": "burn"}),
            KafkaError.INVALID_CONFIG,
        ),
    }
    futures = admin.create_topics([new for new, _ in cases.values()])
    for name, (new, expected) in cases.items():
        assert refusal(futures[new.topic]) == expected, name


def test_create_with_defaults_validate_only_and_assignment(
    admin: AdminClient, unique: Callable[[str], str], until: Until
) -> None:
    broker_id = next(iter(admin.list_topics(timeout=PATIENCE_S).brokers))
    dry = unique("dry")
    admin.create_topics([NewTopic(dry, 1, 1)], validate_only=True)[dry].result(PATIENCE_S)
    plain = unique("plain")
    admin.create_topics([NewTopic(plain)])[plain].result(PATIENCE_S)
    placed = unique("placed")
    assignment = [[broker_id], [broker_id], [broker_id]]
    new = NewTopic(placed, num_partitions=3, replica_assignment=assignment)
    admin.create_topics([new])[placed].result(PATIENCE_S)
    until(lambda: placed in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is there")
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    assert dry not in topics
    assert len(topics[plain].partitions) == 2  # num.partitions of the suite's broker
    assert len(topics[placed].partitions) == 3


def test_delete_of_an_unknown_topic(admin: AdminClient, topic_name: str) -> None:
    assert (
        refusal(admin.delete_topics([topic_name])[topic_name]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    )


def test_create_partitions(
    admin: AdminClient, bootstrap: str, topic_name: str, unique: Callable[[str], str], until: Until
) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    admin.create_partitions([NewPartitions(topic_name, 5)])[topic_name].result(PATIENCE_S)

    def count() -> int:
        return len(admin.list_topics(timeout=PATIENCE_S).topics[topic_name].partitions)

    until(lambda: count() == 5, "five partitions")
    produce(bootstrap, topic_name, [{"value": "v", "partition": 4}])
    assert read_all(bootstrap, topic_name, 1, partition=4)[0].value() == b"v"
    fewer = admin.create_partitions([NewPartitions(topic_name, 3)])[topic_name]
    assert refusal(fewer) == KafkaError.INVALID_PARTITIONS
    ghost = unique("ghost")
    unknown = admin.create_partitions([NewPartitions(ghost, 3)])[ghost]
    assert refusal(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART
    dry = admin.create_partitions([NewPartitions(topic_name, 9)], validate_only=True)[topic_name]
    dry.result(PATIENCE_S)
    assert count() == 5


def test_topic_configs_have_source_type_and_synonyms(
    admin: AdminClient, bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name, retention_ms="3600000")
    configs = _topic_configs(admin, topic_name)
    assert len(configs) > 20
    retention = configs["retention.ms"]
    assert retention.value == "3600000"
    assert retention.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not retention.is_default
    assert not retention.is_read_only
    assert not retention.is_sensitive
    assert "log.retention.hours" in retention.synonyms or retention.synonyms
    policy = configs["cleanup.policy"]
    assert (policy.value, policy.is_default) == ("delete", True)
    assert policy.source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["segment.bytes"].value == "1073741824"


def test_broker_configs(admin: AdminClient) -> None:
    broker_id = next(iter(admin.list_topics(timeout=PATIENCE_S).brokers))
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
    configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert len(configs) > 50
    assert configs["num.partitions"].value == "2"
    assert configs["num.partitions"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert configs["log.dirs"].is_read_only
    assert configs["message.max.bytes"].value == "1048588"


def test_incremental_alter_configs(admin: AdminClient, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, topic_name, incremental_configs=[entry]
        )
        return admin.incremental_alter_configs([resource])[resource]

    def value(name: str) -> str:
        found: str = _topic_configs(admin, topic_name)[name].value
        return found

    def settles(name: str, expected: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while value(name) != expected and time.monotonic() < deadline:
            time.sleep(0.05)
        assert value(name) == expected

    alter("retention.ms", "7200000", AlterConfigOpType.SET).result(PATIENCE_S)
    settles("retention.ms", "7200000")
    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND).result(PATIENCE_S)
    settles("cleanup.policy", "delete,compact")
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT).result(PATIENCE_S)
    settles("cleanup.policy", "compact")
    alter("retention.ms", None, AlterConfigOpType.DELETE).result(PATIENCE_S)
    settles("retention.ms", "604800000")
    assert refusal(alter("no.such", "1", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert refusal(alter("retention.ms", "x", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert (
        refusal(alter("retention.ms", "1", AlterConfigOpType.APPEND)) == KafkaError.INVALID_CONFIG
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_alter_configs_replaces_all(
    admin: AdminClient, bootstrap: str, topic_name: str, until: Until
) -> None:
    make_topic(bootstrap, topic_name, retention_ms="1000000", segment_bytes="2000000")
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, topic_name, set_config={"retention.ms": "99"}
    )
    admin.alter_configs([resource])[resource].result(PATIENCE_S)
    until(lambda: _topic_configs(admin, topic_name)["retention.ms"].value == "99", "it is set")
    assert _topic_configs(admin, topic_name)["segment.bytes"].value == "1073741824"


def test_altered_limit_takes_effect(
    admin: AdminClient, bootstrap: str, topic_name: str, until: Until
) -> None:
    make_topic(bootstrap, topic_name)
    entry = ConfigEntry("max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    until(
        lambda: _topic_configs(admin, topic_name)["max.message.bytes"].value == "500", "it is set"
    )
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produce(bootstrap, topic_name, [{"value": b"x" * 1000}])


def test_configs_of_unknown_topics_are_errors(admin: AdminClient, topic_name: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name)
    described = admin.describe_configs([resource])[resource]
    assert refusal(described) == KafkaError.UNKNOWN_TOPIC_OR_PART
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    target = ConfigResource(ConfigResource.Type.TOPIC, topic_name, incremental_configs=[entry])
    altered = admin.incremental_alter_configs([target])[target]
    assert refusal(altered) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_list_describe_and_delete_groups(
    admin: AdminClient, bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    produce(bootstrap, topic_name, [{"value": "v", "partition": 0}])
    reader = consumer(bootstrap, group_id=group_name, client_id="the-reader",
                      partition_assignment_strategy="range")  # fmt: skip
    reader.subscribe([topic_name])
    reader.commit(message=take(reader, 1)[0], asynchronous=False)

    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert not listed.errors
    states = {group.group_id: group.state for group in listed.valid}
    assert states[group_name] == ConsumerGroupState.STABLE
    stable = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(PATIENCE_S)
    assert group_name not in {group.group_id for group in stable.valid}

    described = admin.describe_consumer_groups([group_name])[group_name].result(PATIENCE_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (member,) = described.members
    assert member.client_id == "the-reader"
    assert member.host.startswith("/127.0.0.1")
    assigned = {(p.topic, p.partition) for p in member.assignment.topic_partitions}
    assert assigned == {(topic_name, 0), (topic_name, 1)}

    busy = admin.delete_consumer_groups([group_name])[group_name]
    assert refusal(busy) == KafkaError.NON_EMPTY_GROUP
    reader.close()
    empty = admin.describe_consumer_groups([group_name])[group_name].result(PATIENCE_S)
    assert empty.state == ConsumerGroupState.EMPTY
    admin.delete_consumer_groups([group_name])[group_name].result(PATIENCE_S)
    gone = admin.delete_consumer_groups([group_name])[group_name]
    assert refusal(gone) == KafkaError.GROUP_ID_NOT_FOUND


def test_an_unknown_group_is_described_as_dead(
    admin: AdminClient, group_name: str, topic_name: str
) -> None:
    """DescribeGroups v6 answers GROUP_ID_NOT_FOUND (KIP-1043); older versions say DEAD."""
    future = admin.describe_consumer_groups([group_name])[group_name]
    if refusal(future) != KafkaError.GROUP_ID_NOT_FOUND:
        assert future.result(PATIENCE_S).state == ConsumerGroupState.DEAD
    request = [ConsumerGroupTopicPartitions(group_name, [TopicPartition(topic_name, 0)])]
    found = admin.list_consumer_group_offsets(request)[group_name].result(PATIENCE_S)
    assert [p.offset for p in found.topic_partitions] == [OFFSET_INVALID]


def test_alter_and_list_group_offsets(
    admin: AdminClient, bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name, partitions=3)
    wanted = [TopicPartition(topic_name, 0, 11), TopicPartition(topic_name, 2, 33)]
    request = [ConsumerGroupTopicPartitions(group_name, wanted)]
    altered = admin.alter_consumer_group_offsets(request)[group_name].result(PATIENCE_S)
    assert all(p.error is None for p in altered.topic_partitions)
    everything = [ConsumerGroupTopicPartitions(group_name)]
    found = admin.list_consumer_group_offsets(everything)[group_name].result(PATIENCE_S)
    assert {(p.partition, p.offset) for p in found.topic_partitions} == {(0, 11), (2, 33)}
    some = [ConsumerGroupTopicPartitions(group_name, [TopicPartition(topic_name, 1)])]
    found = admin.list_consumer_group_offsets(some)[group_name].result(PATIENCE_S)
    assert [p.offset for p in found.topic_partitions] == [OFFSET_INVALID]


def test_alter_offsets_of_a_group_in_use_is_refused(
    admin: AdminClient, bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    produce(bootstrap, topic_name, [{"value": "v"}])
    reader = consumer(bootstrap, group_id=group_name)
    reader.subscribe([topic_name])
    take(reader, 1)
    request = [ConsumerGroupTopicPartitions(group_name, [TopicPartition(topic_name, 0, 1)])]
    outcome = admin.alter_consumer_group_offsets(request)[group_name]
    try:
        codes = [p.error.code() for p in outcome.result(PATIENCE_S).topic_partitions if p.error]
    except KafkaException as raised:
        codes = [raised.args[0].code()]
    assert codes == [KafkaError.UNKNOWN_MEMBER_ID]
    reader.close()


def test_list_offsets(admin: AdminClient, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    start_ms = int(time.time() * 1000) - 60_000
    times = [start_ms, start_ms + 9000, start_ms + 1000]
    for at_ms in times:
        produce(bootstrap, topic_name, [{"value": "v", "timestamp": at_ms}])

    def ask(spec: OffsetSpec, **options: Any) -> Any:
        partition = TopicPartition(topic_name, 0)
        return admin.list_offsets({partition: spec}, **options)[partition].result(PATIENCE_S)

    assert ask(OffsetSpec.earliest()).offset == 0
    assert ask(OffsetSpec.latest()).offset == 3
    largest = ask(OffsetSpec.max_timestamp())
    assert (largest.offset, largest.timestamp) == (1, start_ms + 9000)
    by_time = ask(OffsetSpec.for_timestamp(start_ms + 1))
    assert (by_time.offset, by_time.timestamp) == (1, start_ms + 9000)
    assert ask(OffsetSpec.for_timestamp(start_ms + 9001)).offset == -1
    assert ask(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED).offset == 3


def test_list_offsets_of_an_unknown_partition(
    admin: AdminClient, bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    partition = TopicPartition(topic_name, 5)
    future = admin.list_offsets({partition: OffsetSpec.latest()}, request_timeout=10)[partition]
    assert refusal(future) in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._NOENT)


def test_delete_records(admin: AdminClient, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, partitions=2)
    produce(bootstrap, topic_name, [{"value": str(i), "partition": 0} for i in range(20)])
    produce(bootstrap, topic_name, [{"value": str(i), "partition": 1} for i in range(5)])
    some, all_of_it = TopicPartition(topic_name, 0, 12), TopicPartition(topic_name, 1, -1)
    futures = admin.delete_records([some, all_of_it])
    assert futures[some].result(PATIENCE_S).low_watermark == 12
    assert futures[all_of_it].result(PATIENCE_S).low_watermark == 5
    reader = consumer(bootstrap)
    assert reader.get_watermark_offsets(some, timeout=PATIENCE_S) == (12, 20)
    reader.close()
    assert [m.offset() for m in read_all(bootstrap, topic_name, 8)] == list(range(12, 20))
    beyond = TopicPartition(topic_name, 0, 999)
    future = admin.delete_records([beyond])[beyond]
    assert refusal(future) == KafkaError.OFFSET_OUT_OF_RANGE


def test_describe_cluster(admin: AdminClient, bootstrap: str) -> None:
    described = admin.describe_cluster().result(PATIENCE_S)
    assert len(described.cluster_id) >= 16
    (node,) = described.nodes
    assert f"{node.host}:{node.port}" == bootstrap
    assert described.controller.id == node.id
    assert admin.list_topics(timeout=PATIENCE_S).cluster_id == described.cluster_id
    with_operations = admin.describe_cluster(include_authorized_operations=True).result(PATIENCE_S)
    assert with_operations.authorized_operations is not None


def test_acls_are_answered_without_an_authorizer(admin: AdminClient, topic_name: str) -> None:
    """ACLs are a later issue; a broker without an authorizer says so instead of hanging."""
    pattern = AclBindingFilter(
        ResourceType.TOPIC, topic_name, ResourcePatternType.LITERAL, None, None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    future = admin.describe_acls(pattern, request_timeout=20)
    code = refusal(future)
    assert code in (None, KafkaError.SECURITY_DISABLED, KafkaError._UNSUPPORTED_FEATURE)
    assert code is not None or future.result() == []


def test_internal_topic_is_marked_and_protected(
    admin: AdminClient, bootstrap: str, topic_name: str, group_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    request = [ConsumerGroupTopicPartitions(group_name, [TopicPartition(topic_name, 0, 1)])]
    admin.alter_consumer_group_offsets(request)[group_name].result(PATIENCE_S)
    name = "__consumer_offsets"
    described = admin.describe_topics(TopicCollection([name]))[name].result(PATIENCE_S)
    assert described.is_internal
    assert _topic_configs(admin, name)["cleanup.policy"].value == "compact"
