"""DescribeCluster and DescribeLogDirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from admin_broker import NODE_ID, NOW_MS, AdminBroker, ScenarioRunner

from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, NO_AUTHORIZED_OPERATIONS
from ottla.cluster.topics import TopicSpec
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


@pytest.fixture
def run(tmp_path: Path) -> ScenarioRunner:
    return ScenarioRunner(tmp_path)


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(run: ScenarioRunner, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        request = DescribeClusterRequest()
        response = await broker.ask(ApiKey.DESCRIBE_CLUSTER, request, version)
        assert response.error_code == 0
        assert response.cluster_id == broker.image.cluster_id
        assert response.controller_id == NODE_ID
        (only,) = response.brokers
        assert (only.broker_id, only.host, only.port, only.rack) == (
            NODE_ID,
            "example.org",
            9092,
            "r1",
        )
        assert response.cluster_authorized_operations == NO_AUTHORIZED_OPERATIONS
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        response = await broker.ask(ApiKey.DESCRIBE_CLUSTER, request, version)
        assert response.cluster_authorized_operations == CLUSTER_OPERATIONS

    run(scenario)


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_describe_cluster_knows_brokers_only(
    run: ScenarioRunner, endpoint_type: int, code: ErrorCode
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        response = await broker.ask(ApiKey.DESCRIBE_CLUSTER, request)
        assert response.error_code == code
        assert response.error_message

    run(scenario)


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(run: ScenarioRunner, tmp_path: Path, version: int) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await broker.controller.create_topics([TopicSpec("t", 3), TopicSpec("u", 1)])
        partition = broker.partitions.find("t", 1)
        batch = build_batch([Record(0, NOW_MS, None, b"x" * 100, [])])
        partition.append(memoryview(bytearray(batch)), NOW_MS)
        request = DescribeLogDirsRequest(topics=None)
        response = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, request, version)
        assert [log_dir.log_dir for log_dir in response.results] == [
            f"{tmp_path}/one",
            f"{tmp_path}/two",
        ]
        sizes = {
            (topic.name, replica.partition_index): replica.partition_size
            for result in response.results
            for topic in result.topics
            for replica in topic.partitions
        }
        assert sizes == {("t", 0): 0, ("t", 1): len(batch), ("t", 2): 0, ("u", 0): 0}
        for result in response.results:
            assert result.error_code == 0
            if version >= 4:
                assert 0 < result.usable_bytes <= result.total_bytes

    run(scenario)


def test_describe_log_dirs_of_some_partitions_and_of_a_failed_directory(
    run: ScenarioRunner,
) -> None:
    async def scenario(broker: AdminBroker) -> None:
        await broker.controller.create_topics([TopicSpec("t", 4)])
        asked = [DescribableLogDirTopic(topic="t", partitions=[1, 77])]
        request = DescribeLogDirsRequest(topics=asked)
        response = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, request)
        found = [
            partition.partition_index
            for result in response.results
            for topic in result.topics
            for partition in topic.partitions
        ]
        assert found == [1]
        broker.store.dirs[0].offline = True
        request = DescribeLogDirsRequest(topics=None)
        response = await broker.ask(ApiKey.DESCRIBE_LOG_DIRS, request)
        failed, fine = response.results
        assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert failed.topics == []
        assert failed.total_bytes == -1
        assert fine.error_code == 0
        assert sum(len(topic.partitions) for topic in fine.topics) == 2

    run(scenario)
