"""Which broker coordinates a key, also after partitions were added to an internal topic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from data_path_broker import Client, code, run
from share_client import queue

from ottla.cluster.image import NO_LEADER, PartitionRegistration
from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.coordinator.share.state_records import STATE_TOPIC, SharePartitionKey
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, STATE_TOPIC)
TOPIC_ID = bytes(15) + b"\x01"
KEYS = [SharePartitionKey("g", TOPIC_ID, index) for index in range(20)]


def set_partition_count(client: Client, count: int) -> None:
    """Adds partitions in the newest image; they have no leader."""
    image = client.broker.image
    topics = dict(image.topics)
    for name in topics.keys() & set(TOPICS):
        more = [
            PartitionRegistration(number, (1,), NO_LEADER, 0, (1,), 0) for number in range(count)
        ]
        partitions = (*topics[name].partitions, *more)[:count]
        topics[name] = replace(topics[name], partitions=partitions)
    client.broker.metadata.image = replace(image, topics=topics)


def test_added_partitions_move_no_key_to_another_coordinator(tmp_path: Path) -> None:
    """The loaded shards do not have them: requests would fail with NOT_COORDINATOR forever."""

    async def act(client: Client) -> None:
        await queue(client)
        for name, (key_type, key) in zip(TOPICS, enumerate(["g", "g", str(KEYS[0])]), strict=True):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            await client.ask(ApiKey.FIND_COORDINATOR, request)
            assert name in client.broker.image.topics
        set_partition_count(client, 40)
        names = [str(key) for key in KEYS]
        for key_type in range(3):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=names)
            found = await client.ask(ApiKey.FIND_COORDINATOR, request)
            assert {code(coordinator) for coordinator in found.coordinators} == {"NONE"}
        broker = client.broker
        assert {broker.shares.states.leader(key) for key in KEYS} == {broker.node_id}
        assert {broker.verification._coordinator(name) for name in names} == {broker.node_id}

    run(tmp_path, act)


def test_a_topic_that_is_created_again_with_fewer_partitions_has_no_coordinator_yet(
    tmp_path: Path,
) -> None:
    """Between its image and `apply`, in which the coordinators of groups come first."""

    async def act(client: Client) -> None:
        await queue(client)
        assert STATE_TOPIC in client.broker.image.topics
        set_partition_count(client, 0)
        with pytest.raises(KafkaError) as refused:
            client.broker.shares.states.leader(KEYS[0])
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(tmp_path, act)
