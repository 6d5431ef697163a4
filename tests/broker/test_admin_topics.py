"""CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, DeleteRecords."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from admin_broker import NODE_ID, NOW_MS, AdminBroker, ScenarioRunner

from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)


@pytest.fixture
def run(tmp_path: Path) -> ScenarioRunner:
    return ScenarioRunner(tmp_path)


def topic(name: str, partitions: int = -1, factor: int = -1, **configs: str) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def create(
    broker: AdminBroker, *topics: CreatableTopic, version: int | None = None, **options: Any
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), **options)
    response = await broker.ask(ApiKey.CREATE_TOPICS, request, version)
    results: list[CreatableTopicResult] = response.topics
    return results


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_creates_writable_partitions(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        spec = topic("t", 3, 1, retention_ms="5000")
        (result,) = await create(broker, spec, version=version)
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        made = broker.image.topics["t"]
        assert [partition.leader for partition in made.partitions] == [NODE_ID] * 3
        for index in range(3):
            assert broker.partitions.find("t", index).log.config.retention_ms == 5000
        if version >= 7:
            assert result.topic_id == made.id
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert result.configs is not None
            configs = {config.name: config for config in result.configs}
            assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (
                "5000",
                1,
            )
            assert configs["segment.bytes"].config_source == 5
            assert all(config.config_source > 0 for config in result.configs)

    run(scenario)


def test_create_topics_takes_defaults(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("t"))
        assert len(broker.image.topics["t"].partitions) == 4

    run(scenario, num_partitions="4")


def test_create_topics_answers_each_topic_separately(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("old"))
        twice = CreatableTopic(
            name="twice",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=0, broker_ids=[NODE_ID]),
                CreatableReplicaAssignment(partition_index=0, broker_ids=[NODE_ID]),
            ],
        )
        results = await create(
            broker,
            topic("new"),
            topic("old"),
            topic("bad name"),
            topic("double"),
            topic("double"),
            topic("config", nonsense="1"),
            topic("many", 1, 3),
            twice,
        )
        codes = {result.name: ErrorCode(result.error_code).name for result in results}
        assert codes == {
            "new": "NONE",
            "old": "TOPIC_ALREADY_EXISTS",
            "bad name": "INVALID_TOPIC_EXCEPTION",
            "double": "INVALID_REQUEST",
            "config": "INVALID_CONFIG",
            "many": "INVALID_REPLICATION_FACTOR",
            "twice": "INVALID_REPLICA_ASSIGNMENT",
        }
        assert len(results) == 7
        for result in results[1:]:
            assert result.error_message
            assert result.configs == []
        assert set(broker.image.topics) == {"old", "new"}

    run(scenario)


def test_create_topics_with_validate_only_creates_nothing(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        (result,) = await create(broker, topic("t", 2), validate_only=True)
        assert (result.error_code, result.num_partitions) == (0, 2)
        assert result.topic_id == ZERO_UUID
        assert broker.image.topics == {}

    run(scenario)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics_by_name(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("t"))
        made = broker.image.topics["t"]
        names = ["t", "none"]
        request = DeleteTopicsRequest(topic_names=names)
        if version >= 6:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
        response = await broker.ask(ApiKey.DELETE_TOPICS, request, version)
        good, missing = response.responses
        assert (good.name, good.error_code) == ("t", 0)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 6:
            assert good.topic_id == made.id
        assert broker.image.topics == {}
        assert broker.store.get("t", 0) is None

    run(scenario)


def test_delete_topics_by_id_and_invalid_requests(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("a"), topic("b"), topic("c"))
        ids = {name: image.id for name, image in broker.image.topics.items()}
        asked = [
            DeleteTopicState(name=None, topic_id=ids["a"]),
            DeleteTopicState(name="a"),
            DeleteTopicState(name="b", topic_id=ids["b"]),
            DeleteTopicState(name="c"),
            DeleteTopicState(name="c"),
            DeleteTopicState(name=None, topic_id=b"x" * 16),
            DeleteTopicState(name=None),
        ]
        response = await broker.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=asked))
        found = [(result.name, ErrorCode(result.error_code).name) for result in response.responses]
        assert found == [
            ("a", "NONE"),
            ("a", "INVALID_REQUEST"),
            ("b", "INVALID_REQUEST"),
            ("c", "INVALID_REQUEST"),
            (None, "UNKNOWN_TOPIC_ID"),
            (None, "INVALID_REQUEST"),
        ]
        assert set(broker.image.topics) == {"b", "c"}

    run(scenario)


def test_delete_topics_may_be_disabled(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("t"))
        for version, code in ((1, ErrorCode.INVALID_REQUEST), (4, 73)):
            request = DeleteTopicsRequest(topic_names=["t"])
            response = await broker.ask(ApiKey.DELETE_TOPICS, request, version)
            assert response.responses[0].error_code == code
        assert set(broker.image.topics) == {"t"}

    run(scenario, delete_topic_enable="false")


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("t", 1), topic("u", 1))
        own = [CreatePartitionsAssignment(broker_ids=[NODE_ID])]
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="t", count=3),
                CreatePartitionsTopic(name="u", count=2, assignments=own),
                CreatePartitionsTopic(name="none", count=3),
            ]
        )
        response = await broker.ask(ApiKey.CREATE_PARTITIONS, request, version)
        codes = [(result.name, result.error_code) for result in response.results]
        assert codes == [("t", 0), ("u", 0), ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert broker.partitions.find("t", 2).log.end_offset == 0
        assert len(broker.image.topics["u"].partitions) == 2

    run(scenario)


def test_create_partitions_refuses_shrinking_and_duplicates_and_validates_only(
    run: ScenarioRunner,
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("t", 2), topic("u"))
        less = CreatePartitionsTopic(name="t", count=1)
        double = CreatePartitionsTopic(name="u", count=2)
        request = CreatePartitionsRequest(topics=[less, double, double])
        response = await broker.ask(ApiKey.CREATE_PARTITIONS, request)
        found = {
            result.name: (result.error_code, result.error_message) for result in response.results
        }
        assert found == {
            "t": (
                ErrorCode.INVALID_PARTITIONS,
                "The topic t currently has 2 partition(s); 1 would not be an increase.",
            ),
            "u": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        }
        more = CreatePartitionsTopic(name="t", count=9)
        request = CreatePartitionsRequest(topics=[more], validate_only=True)
        response = await broker.ask(ApiKey.CREATE_PARTITIONS, request)
        assert response.results[0].error_code == 0
        assert len(broker.image.topics["t"].partitions) == 2

    run(scenario)


async def described(
    broker: AdminBroker, names: list[str], limit: int = 2000, cursor: Cursor | None = None
) -> tuple[list[tuple[str, list[int], str]], Cursor | None]:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    response = await broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
    topics = [
        (
            result.name,
            [partition.partition_index for partition in result.partitions],
            ErrorCode(result.error_code).name,
        )
        for result in response.topics
    ]
    return topics, response.next_cursor


def test_describe_topic_partitions_continues_at_the_cursor(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("b", 3), topic("a", 2), topic("c", 1))
        everything = [("a", [0, 1], "NONE"), ("b", [0, 1, 2], "NONE"), ("c", [0], "NONE")]
        assert await described(broker, []) == (everything, None)
        topics, cursor = await described(broker, [], limit=3)
        assert topics == [("a", [0, 1], "NONE"), ("b", [0], "NONE")]
        assert cursor == Cursor(topic_name="b", partition_index=1)
        topics, cursor = await described(broker, [], limit=2, cursor=cursor)
        assert topics == [("b", [1, 2], "NONE")]
        assert cursor == Cursor(topic_name="c", partition_index=0)
        topics, cursor = await described(broker, [], limit=2, cursor=cursor)
        assert (topics, cursor) == ([("c", [0], "NONE")], None)
        topics, _ = await described(broker, ["c", "none", "a b"])
        assert topics == [
            ("a b", [], "INVALID_TOPIC_EXCEPTION"),
            ("c", [0], "NONE"),
            ("none", [], "UNKNOWN_TOPIC_OR_PARTITION"),
        ]
        for bad in (Cursor("b", 0), Cursor("a", -1)):
            topics, _ = await described(broker, ["a"], cursor=bad)
            assert topics == [("a", [], "INVALID_REQUEST")]

    run(scenario)


def test_describe_topic_partitions_respects_the_brokers_limit(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("a", 5))
        topics, cursor = await described(broker, ["a"], limit=4)
        assert topics == [("a", [0, 1], "NONE")]
        assert cursor == Cursor(topic_name="a", partition_index=2)
        topics, _ = await described(broker, ["a"], limit=0)
        assert topics == [("a", [0], "NONE")]
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")])
        response = await broker.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
        partition = response.topics[0].partitions[0]
        assert (partition.leader_id, partition.isr_nodes) == (NODE_ID, [NODE_ID])
        assert partition.eligible_leader_replicas == []
        assert partition.last_known_elr == []

    run(scenario, max_request_partition_size_limit="2")


@pytest.mark.parametrize("version", range(3))
def test_delete_records(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(
            broker, topic("t"), topic("compacted", cleanup_policy="compact"), topic("empty")
        )
        partition = broker.partitions.find("t", 0)
        records = [Record(i, NOW_MS, None, b"x", []) for i in range(10)]
        partition.append(memoryview(bytearray(build_batch(records))), NOW_MS)
        asked = [("t", 0, 4), ("t", 0, -1), ("t", 0, 11), ("t", 9, 0), ("compacted", 0, 0)]
        expected = [(4, "NONE"), (10, "NONE"), (-1, "OFFSET_OUT_OF_RANGE")]
        expected += [(-1, "UNKNOWN_TOPIC_OR_PARTITION"), (-1, "POLICY_VIOLATION")]
        for (name, index, offset), answer in zip(asked, expected, strict=True):
            spec = DeleteRecordsPartition(partition_index=index, offset=offset)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=[spec])]
            )
            response = await broker.ask(ApiKey.DELETE_RECORDS, request, version)
            result = response.topics[0].partitions[0]
            assert (result.low_watermark, ErrorCode(result.error_code).name) == answer
        assert partition.log.start_offset == 10

    run(scenario)


def test_delete_records_refuses_internal_topics(run: ScenarioRunner) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await create(broker, topic("__consumer_offsets"))
        spec = DeleteRecordsPartition(partition_index=0, offset=0)
        asked = [DeleteRecordsTopic(name="__consumer_offsets", partitions=[spec])]
        response = await broker.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(topics=asked))
        result = response.topics[0].partitions[0]
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(scenario)
