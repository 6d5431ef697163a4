"""Metadata, v0 to v13: all, no or some topics, and automatic creation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, code, run

from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.wire.apis import ApiKey
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

VERSIONS = range(14)


async def ask(client: Client, version: int, *names: str, **options: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return await client.ask(ApiKey.METADATA, MetadataRequest(topics, **options), version)


async def ask_all(client: Client, version: int) -> Any:
    """All topics: v0 has no null, so there an empty list means all."""
    topics = [] if version == 0 else None
    return await client.ask(ApiKey.METADATA, MetadataRequest(topics), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("b", 2)
        await client.create("a")
        answer = await ask_all(client, version)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [
            ("a", 1),
            ("b", 2),
        ]
        broker = client.broker
        (node,) = answer.brokers
        assert (node.node_id, node.host, node.port) == (broker.node_id, "127.0.0.1", broker.port)
        if version >= 1:
            assert answer.controller_id == broker.node_id
            assert node.rack == "here"
        if version >= 2:
            assert answer.cluster_id == broker.image.cluster_id
        for topic in answer.topics:
            assert code(topic) == "NONE"
            for index, partition in enumerate(topic.partitions):
                assert (code(partition), partition.partition_index) == ("NONE", index)
                assert partition.leader_id == broker.node_id
                assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
                if version >= 5:
                    assert partition.offline_replicas == []
                if version >= 7:
                    assert partition.leader_epoch == 0
            if version >= 10:
                assert topic.topic_id == broker.image.topics[topic.name].id

    run(tmp_path, act, broker_rack="here")


@pytest.mark.parametrize("version", range(1, 14))
def test_no_topics(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("a")
        answer = await ask(client, version)
        assert (answer.topics, len(answer.brokers)) == ([], 1)

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_created_by_metadata(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        answer = await ask(client, version, "new", "new")
        (topic,) = answer.topics
        assert (code(topic), topic.name, len(topic.partitions)) == ("NONE", "new", 3)
        assert topic.partitions[0].leader_id == client.broker.node_id
        assert client.broker.partitions.find("new", 2).log.end_offset == 0

    run(tmp_path, act, num_partitions="3")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_not_created_unless_allowed(tmp_path: Path, version: int) -> None:
    async def unwanted(client: Client) -> None:
        answer = await ask(client, version, "new", allow_auto_topic_creation=version < 4)
        assert code(answer.topics[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert client.broker.image.topics == {}

    run(tmp_path, unwanted, auto_create_topics_enable="false" if version < 4 else "true")

    async def forbidden(client: Client) -> None:
        answer = await ask(client, version, "new")
        assert code(answer.topics[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert (answer.topics[0].name, answer.topics[0].partitions) == ("new", [])
        assert client.broker.image.topics == {}

    run(tmp_path, forbidden, auto_create_topics_enable="false")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("create", ["true", "false"])
def test_invalid_topic_names(tmp_path: Path, version: int, create: str) -> None:
    async def act(client: Client) -> None:
        await client.create("a.b")
        names = ["bad name", ".", "..", "x" * 250, "", "a.b"]
        answer = await ask(client, version, *names)
        assert [(topic.name, code(topic)) for topic in answer.topics] == [
            *((name, "INVALID_TOPIC_EXCEPTION") for name in names[:-1]),
            ("a.b", "NONE"),
        ]
        assert set(client.broker.image.topics) == {"a.b"}

    run(tmp_path, act, auto_create_topics_enable=create)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_colliding_topic_name_is_not_created(tmp_path: Path, version: int) -> None:
    """`a.b` and `a_b` would have the same metrics."""

    async def act(client: Client) -> None:
        await client.create("a.b")
        answer = await ask(client, version, "a_b")
        assert code(answer.topics[0]) == "INVALID_TOPIC_EXCEPTION"

    run(tmp_path, act)


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        topic_id, unknown = client.topic_id("t"), bytes(range(16))
        topics = [
            MetadataRequestTopic(topic_id=topic_id, name=None),
            MetadataRequestTopic(topic_id=unknown, name=None),
        ]
        answer = await client.ask(ApiKey.METADATA, MetadataRequest(topics), version)
        assert [(topic.topic_id, topic.name, code(topic)) for topic in answer.topics] == [
            (topic_id, "t", "NONE"),
            (unknown, None, "UNKNOWN_TOPIC_ID"),
        ]

    run(tmp_path, act)


@pytest.mark.parametrize("version", [10, 11])
def test_early_versions_may_not_use_topic_ids(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        topics = [
            MetadataRequestTopic(topic_id=client.topic_id("t"), name="t"),
            MetadataRequestTopic(topic_id=ZERO_UUID, name=None),
        ]
        answer = await client.ask(ApiKey.METADATA, MetadataRequest(topics), version)
        assert [code(topic) for topic in answer.topics] == ["INVALID_REQUEST"] * 2

    run(tmp_path, act)


@pytest.mark.parametrize("version", VERSIONS)
def test_internal_topics_are_created_with_their_configs(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        answer = await ask(client, version, OFFSETS_TOPIC, "__transaction_state")
        offsets, transactions = answer.topics
        assert (code(offsets), len(offsets.partitions)) == ("NONE", 3)
        if version >= 1:
            assert offsets.is_internal
        assert client.broker.image.topics[OFFSETS_TOPIC].configs["cleanup.policy"] == "compact"
        assert (code(transactions), len(transactions.partitions)) == ("NONE", 50)
        configs = client.broker.image.topics["__transaction_state"].configs
        assert configs["compression.type"] == "uncompressed"

    run(tmp_path, act)


@pytest.mark.parametrize("version", range(8, 14))
def test_authorized_operations_are_returned_on_request(tmp_path: Path, version: int) -> None:
    async def act(client: Client) -> None:
        await client.create("t")
        not_asked = -(1 << 31)
        answer = await ask(client, version, "t")
        assert answer.topics[0].topic_authorized_operations == not_asked
        answer = await ask(
            client,
            version,
            "t",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        )
        assert answer.topics[0].topic_authorized_operations > 0
        if version <= 10:
            assert answer.cluster_authorized_operations > 0

    run(tmp_path, act)
