"""Asks a cluster directly, over plain connections: for leaders, controller, acknowledgements."""

from __future__ import annotations

import time

from benchmarks.brokers import HOST, KAFKA
from benchmarks.clusters import Cluster, Node
from ottla.client.protocol.connection import BrokerConnection
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from ottla.wire.messages.describe_quorum import PartitionData as QuorumPartition
from ottla.wire.messages.describe_quorum import TopicData as QuorumTopic
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

LINE_TIMEOUT_S = 121.0
PRODUCE_TIMEOUT_MS = 120_000
PRODUCE_VERSION = 9  # by names of topics
METADATA_VERSION = 9
FIRST_RECORDS_S_MAX = 120.0


def controller_of(cluster: Cluster) -> int:
    """Kafka's brokers return a random broker as the controller; its quorum knows the real one."""
    node = next(iter(cluster.nodes.values()))
    line = open_line(node)
    try:
        if cluster.name != KAFKA:
            return metadata(line, None).controller_id
        topic = QuorumTopic("__cluster_metadata", [QuorumPartition(0)])
        quorum = line.call(
            DescribeQuorumRequest([topic]), ApiKey.DESCRIBE_QUORUM, DescribeQuorumResponse
        )
        return quorum.topics[0].partitions[0].leader_id
    finally:
        line.close()


def open_line(node: Node) -> BrokerConnection:
    return BrokerConnection(HOST, node.port, settings={}, timeout_s=LINE_TIMEOUT_S)


def metadata(line: BrokerConnection, topic: str | None) -> MetadataResponse:
    topics = None if topic is None else [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics, allow_auto_topic_creation=False)
    return line.call(request, ApiKey.METADATA, MetadataResponse, version_max=METADATA_VERSION)


def produce(line: BrokerConnection, topic: str, partitions: list[int]) -> dict[int, int]:
    """Produce a record with acks=all to each partition; returns the error codes by partition."""
    batch = build_batch([Record(timestamp=int(time.time() * 1000), key=None, value=b"probe")])
    asked = [PartitionProduceData(index, batch) for index in partitions]
    request = ProduceRequest(
        acks=-1,
        timeout=PRODUCE_TIMEOUT_MS,
        topic_data=[TopicProduceData(topic, partition_data=asked)],
    )
    response = line.call(request, ApiKey.PRODUCE, ProduceResponse, version_max=PRODUCE_VERSION)
    answers = response.responses[0].partition_responses
    return {answer.index: answer.error_code for answer in answers if answer.error_code}


def first_records_s(cluster: Cluster, topic: str) -> float:
    """The time until every partition has taken a record; one request per leader for all of its."""
    started_at = time.perf_counter()
    lines = {node.id: open_line(node) for node in cluster.nodes.values()}
    try:
        any_line = next(iter(lines.values()))
        found = metadata(any_line, topic).topics[0].partitions
        missing = {item.partition_index: item.leader_id for item in found}
        while missing and time.perf_counter() - started_at < FIRST_RECORDS_S_MAX:
            for node_id, line in lines.items():
                led = [index for index, leader in missing.items() if leader == node_id]
                refused = produce(line, topic, led) if led else {}
                missing = {k: v for k, v in missing.items() if k not in led or k in refused}
    finally:
        for line in lines.values():
            line.close()
    if missing:
        raise TimeoutError(f"{len(missing)} partitions took no record")
    return time.perf_counter() - started_at
