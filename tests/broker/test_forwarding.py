"""Requests for the controller, sent to any broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cluster_brokers import Brokers, with_brokers

from ottla.broker.forwarding import await_image, call_controller
from ottla.broker.handlers.envelope import FORWARDED
from ottla.cluster import layout
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)


def creation(*names: str, **more: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=2, replication_factor=2) for name in names
        ],
        timeout=more.get("timeout", 5000),
    )


async def create(brokers: Brokers, broker_id: int, *names: str) -> CreateTopicsResponse:
    return await brokers.ask(
        broker_id, creation(*names), ApiKey.CREATE_TOPICS, CreateTopicsResponse
    )


def test_any_broker_creates_grows_and_deletes_topics(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        made = await create(brokers, 2, "t", "u", "bad name")
        codes = {topic.name: topic.error_code for topic in made.topics}
        assert codes == {"t": 0, "u": 0, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert {"t", "u"} <= brokers[2].image.topics.keys()  # as soon as the response has arrived
        grown = await brokers.ask(
            3,
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=5)]),
            ApiKey.CREATE_PARTITIONS,
            CreatePartitionsResponse,
        )
        assert [result.error_code for result in grown.results] == [0]
        assert len(brokers[3].image.topics["t"].partitions) == 5
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t"), DeleteTopicState("no")])
        gone = await brokers.ask(3, request, ApiKey.DELETE_TOPICS, DeleteTopicsResponse)
        assert {response.name: response.error_code for response in gone.responses} == {
            "t": 0,
            "no": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert "t" not in brokers[3].image.topics

    with_brokers(tmp_path, scenario)


def test_older_versions_keep_their_meaning_when_forwarded(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await create(brokers, 2, "t")
        request = DeleteTopicsRequest(topic_names=["t"], timeout=5000)
        gone = await brokers.ask(2, request, ApiKey.DELETE_TOPICS, DeleteTopicsResponse, version=1)
        assert [(response.name, response.error_code) for response in gone.responses] == [("t", 0)]
        assert "t" not in brokers[2].image.topics

    with_brokers(tmp_path, scenario)


def test_a_quota_applies_to_a_client_on_every_broker(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        entity = (("client-id", "test"),)
        rate = {"controller_mutation_rate": "0.1"}
        await brokers[2].settings.alter_quotas([entity], lambda *_: rate)
        await brokers.until(lambda: brokers[1].quotas.active)
        codes = [(await create(brokers, 2, name)).topics[0].error_code for name in "abcdef"]
        assert codes[0] == 0
        assert codes[-1] == ErrorCode.THROTTLING_QUOTA_EXCEEDED

    with_brokers(tmp_path, scenario, count=2)


def test_a_request_waits_for_the_next_controller(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers.crash(1)
        made = await create(brokers, 2, "t")
        assert [topic.error_code for topic in made.topics] == [0]
        assert brokers[2].image.controller_id in (2, 3)

    with_brokers(tmp_path, scenario)


def test_without_a_controller_a_request_fails_within_its_timeout(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        await brokers[2]._election.halt()
        await brokers.crash(1)
        request = creation("t", timeout=300)
        made = await brokers.ask(2, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
        assert [topic.error_code for topic in made.topics] == [ErrorCode.NOT_CONTROLLER]
        growth = CreatePartitionsRequest([CreatePartitionsTopic(name="t", count=5)], 100)
        grown = await brokers.ask(2, growth, ApiKey.CREATE_PARTITIONS, CreatePartitionsResponse)
        assert [result.error_code for result in grown.results] == [ErrorCode.NOT_CONTROLLER]
        end = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout=100)
        gone = await brokers.ask(2, end, ApiKey.DELETE_TOPICS, DeleteTopicsResponse)
        assert [response.error_code for response in gone.responses] == [ErrorCode.NOT_CONTROLLER]

    with_brokers(tmp_path, scenario, count=2)


def test_a_superseded_controller_forwards_to_its_successor(tmp_path: Path) -> None:
    """It has not noticed yet; neither its client nor a forwarding broker need know."""

    async def scenario(brokers: Brokers) -> None:
        hold = brokers[1].controller._ephemeral_key
        assert hold is not None
        await brokers[1]._election.halt()
        await brokers[1]._meta_store.delete(layout.CONTROLLER, version=0)
        await brokers.until(lambda: brokers[2].controller.active or brokers[3].controller.active)
        hold.lost.clear()
        assert brokers[1].controller.active
        made = await create(brokers, 1, "t")
        assert [topic.error_code for topic in made.topics] == [0]
        assert "t" in brokers[1].image.topics

    with_brokers(tmp_path, scenario)


def test_metadata_creates_topics_on_any_broker(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        answer = await brokers.ask(3, request, ApiKey.METADATA, MetadataResponse)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [("t", 0)]
        assert len(answer.topics[0].partitions) == 4

    with_brokers(tmp_path, scenario, num_partitions="4")


def test_dead_brokers_replicas_are_offline_for_clients(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="t",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(0, [3, 2]),
                        CreatableReplicaAssignment(1, [2, 1]),
                    ],
                ),
                CreatableTopic(
                    name="alone",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(0, [3])],
                ),
            ],
            timeout=60_000,
        )
        await brokers.ask(2, request, ApiKey.CREATE_TOPICS, CreateTopicsResponse)
        await brokers.crash(3)
        await brokers.until(lambda: brokers.partition(1).leader == 2)
        await brokers.until(lambda: brokers.partition(2).leader == 2)
        answer = await brokers.ask(
            2, MetadataRequest(topics=None), ApiKey.METADATA, MetadataResponse
        )
        alone, topic = sorted(answer.topics, key=lambda topic_metadata: topic_metadata.name or "")
        assert [
            (partition.leader_id, partition.offline_replicas) for partition in topic.partitions
        ] == [
            (2, [3]),
            (2, []),
        ]
        (partition,) = alone.partitions
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (-1, [3])
        # The broker itself stays visible for some seconds (broker/recently_dead_brokers.py).
        assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]

    with_brokers(tmp_path, scenario)


def test_envelopes_carry_only_what_is_for_the_controller(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        garbage = EnvelopeRequest(b"\0\3\0\0\0\0\0\0\0\0", None, bytes(4))  # Metadata v0
        for broker_id, code in [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.NOT_CONTROLLER)]:
            answer = await brokers.ask(
                broker_id, garbage, ApiKey.ENVELOPE, EnvelopeResponse, version=0
            )
            assert answer.error_code == code
        for broken in (EnvelopeRequest(b"\0"), EnvelopeRequest(b"\0\x13\0\5", None, b"12345")):
            answer = await brokers.ask(1, broken, ApiKey.ENVELOPE, EnvelopeResponse, version=0)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert ApiKey.METADATA not in FORWARDED
        versions = await brokers.ask(
            1, ApiVersionsRequest("a", "b"), ApiKey.API_VERSIONS, ApiVersionsResponse, version=3
        )
        assert ApiKey.ENVELOPE not in {api.api_key for api in versions.api_keys}

    with_brokers(tmp_path, scenario, count=2)


def test_brokers_send_their_own_requests_to_the_controller(tmp_path: Path) -> None:
    async def scenario(brokers: Brokers) -> None:
        for broker_id, name in ((1, "a"), (2, "b")):
            answer = await call_controller(
                brokers[broker_id], creation(name), ApiKey.CREATE_TOPICS, CreateTopicsResponse
            )
            assert [topic.error_code for topic in answer.topics] == [0]
        await asyncio.gather(*(brokers[broker_id].auto_create("same") for broker_id in (1, 2)))
        assert all("same" in brokers[broker_id].image.topics for broker_id in (1, 2))
        with pytest.raises(KafkaError) as caught:
            await brokers[2].auto_create("not a name")
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert not await await_image(brokers[2].metadata, lambda image: False, 0.01)

    with_brokers(tmp_path, scenario, count=2)
