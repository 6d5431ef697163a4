"""Consumer groups (KIP-848) on a real broker, without sockets: log, topics, configs, the switch."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from test_group_coordinator_service import Client, run

from ottla.coordinator.consumer.subscription import ASSIGNED_AT_ONCE_MAX
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


async def beat(client: Client, member_id: str, epoch: int, **fields: Any) -> Any:
    if epoch == 0:
        fields = {
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
            **fields,
        }
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields)
    return await client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)


async def described(client: Client) -> Any:
    request = ConsumerGroupDescribeRequest(["g"], include_authorized_operations=True)
    return (await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, request)).groups[0]


def owned(response: Any) -> list[int]:
    return [index for topic in response.assignment.topic_partitions for index in topic.partitions]


def test_a_group_outlives_its_broker(tmp_path: Path) -> None:
    async def first(client: Client) -> None:
        joined = await beat(client, "m", 0)
        assert (joined.error_code, joined.member_epoch, owned(joined)) == (0, 2, [0, 1, 2])
        assert joined.heartbeat_interval == 5_000
        member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 2}
        assert await client.commit("g", 5, **member) == 0
        assert await client.commit("g", 5, version=8, **member) == ErrorCode.UNSUPPORTED_VERSION
        member["generation_id_or_member_epoch"] = 3
        assert await client.commit("g", 5, **member) == ErrorCode.STALE_MEMBER_EPOCH

    async def second(client: Client) -> None:
        group = await described(client)
        assert (group.group_state, group.group_epoch, group.assignor_name) == (
            "Stable",
            2,
            "uniform",
        )
        assert group.authorized_operations > 0
        assert group.members[0].assignment.topic_partitions[0].topic_name == "t"
        assert group.members[0].target_assignment.topic_partitions[0].partitions == [0, 1, 2]
        again = await beat(client, "m", 2)
        assert (again.error_code, again.member_epoch, again.assignment) == (0, 2, None)
        assert await client.committed("g") == {0: 5}

    run(tmp_path, first, second)


def test_a_topic_that_grows_is_assigned_again(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await beat(client, "m", 0)
        results = await client.broker.controller.create_partitions({"t": (5, None)})
        assert results["t"] is None
        topic_id = client.broker.image.topics["t"].id
        held = [TopicPartitions(topic_id, [0, 1, 2])]
        grown = await beat(client, "m", 2, topic_partitions=held)
        assert (grown.member_epoch, owned(grown)) == (3, [0, 1, 2, 3, 4])

    run(tmp_path, act, group_consumer_assignment_interval_ms="0")


def test_a_large_subscription_is_assigned_off_the_loop(tmp_path: Path) -> None:
    """Meanwhile the previous target applies, and every member is served."""

    async def act(client: Client) -> None:
        names = [f"no-such-topic-{number}" for number in range(ASSIGNED_AT_ONCE_MAX)]
        alone = await beat(client, "m", 0)
        topic_id = client.broker.image.topics["t"].id
        joined = await beat(client, "n", 0, subscribed_topic_names=["t", *names])
        assert (joined.error_code, owned(joined)) == (0, [])
        kept, epochs = owned(alone), {"m": alone.member_epoch, "n": joined.member_epoch}
        async with asyncio.timeout(60):
            while not (joined.assignment and owned(joined)):
                held = [TopicPartitions(topic_id, kept)]
                first = await beat(client, "m", epochs["m"], topic_partitions=held)
                kept = owned(first) if first.assignment else kept
                joined = await beat(client, "n", epochs["n"], topic_partitions=[])
                epochs = {"m": first.member_epoch, "n": joined.member_epoch}
                await asyncio.sleep(0.01)
        assert sorted([*kept, *owned(joined)]) == [0, 1, 2]
        assert epochs["n"] == 3

    run(tmp_path, act, group_consumer_assignment_interval_ms="0")


def test_a_member_may_fetch_only_with_its_epoch(tmp_path: Path) -> None:
    async def fetch(client: Client, member_id: str | None, epoch: int) -> int:
        group = OffsetFetchRequestGroup("g", member_id, epoch, None)
        response = await client.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[group]), 9)
        return int(response.groups[0].error_code)

    async def act(client: Client) -> None:
        await beat(client, "m", 0)
        assert await fetch(client, None, -1) == 0
        assert await fetch(client, "m", 2) == 0
        assert await fetch(client, "m", 0) == ErrorCode.STALE_MEMBER_EPOCH
        assert await fetch(client, "x", 1) == ErrorCode.UNKNOWN_MEMBER_ID

    run(tmp_path, act)


def test_groups_are_described_by_their_type(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await beat(client, "m", 0)
        member_id, generation = await client.join("h")
        await client.sync("h", member_id, generation)
        listing = await client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=["consumer"]))
        assert [(g.group_id, g.protocol_type, g.group_type) for g in listing.groups] == [
            ("g", "consumer", "consumer")
        ]
        answer = await client.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(["g"]))
        assert answer.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        request = ConsumerGroupDescribeRequest(["h", "none", ""])
        answer = await client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, request)
        assert [(g.error_code, g.error_message) for g in answer.groups] == [
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group h is not a consumer group."),
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
            (ErrorCode.INVALID_GROUP_ID, None),
        ]

    run(tmp_path, act)


def test_a_group_can_override_the_brokers_configs(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.broker.settings.alter_group_config(
            "g", lambda before: {**before, "consumer.heartbeat.interval.ms": "7000"}
        )
        assert (await beat(client, "m", 0)).heartbeat_interval == 7_000

    run(tmp_path, act)


def test_a_broker_may_serve_classic_groups_only(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        answer = await beat(client, "m", 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(tmp_path, act, group_coordinator_rebalance_protocols="classic")


def test_the_feature_is_advertised(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        request = ApiVersionsRequest("test", "1")
        answer = await client.ask(ApiKey.API_VERSIONS, request)
        found = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert found["group.version"] == 1

    run(tmp_path, act)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining.",
        ),
    ],
)
def test_a_join_must_name_its_required_fields(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    async def act(client: Client) -> None:
        answer = await beat(client, "m", 0, **fields)
        assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, why)

    run(tmp_path, act)


def test_an_invalid_expression_is_refused_and_leaves_no_group(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        answer = await beat(client, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
        assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert (await described(client)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(tmp_path, act)
