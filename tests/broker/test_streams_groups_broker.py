"""Streams groups (KIP-1071) on a real broker, without sockets: internal topics, configs, log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from test_group_coordinator_service import Client, run

from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)

NO_DELAY = {"group_streams_initial_rebalance_delay_ms": "0"}
CHANGELOG = TopicInfo("g-counts-changelog", 0, 0, [KeyValue("cleanup.policy", "compact")])
COUNT = Topology(
    0,
    [
        Subtopology("0", ["t"], repartition_sink_topics=["g-counts-repartition"]),
        Subtopology(
            "1",
            repartition_source_topics=[TopicInfo("g-counts-repartition")],
            state_changelog_topics=[CHANGELOG],
        ),
    ],
)


async def beat(
    client: Client, member_id: str, epoch: int, topology: Topology = COUNT, **fields: Any
) -> Any:
    if epoch == 0:
        fields = {
            "rebalance_timeout": 60_000,
            "topology": topology,
            "process_id": member_id,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        }
    request = StreamsGroupHeartbeatRequest("g", member_id, epoch, **fields)
    return await client.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, request)


def active(response: Any) -> dict[str, list[int]]:
    return {tasks.subtopology_id: tasks.partitions for tasks in response.active_tasks}


async def described(client: Client) -> Any:
    request = StreamsGroupDescribeRequest(["g"], include_authorized_operations=True)
    return (await client.ask(ApiKey.STREAMS_GROUP_DESCRIBE, request)).groups[0]


def test_internal_topics_are_created_and_the_group_outlives_its_broker(tmp_path: Path) -> None:
    async def first(client: Client) -> None:
        joined = await beat(client, "m", 0)
        assert (joined.error_code, joined.member_epoch, joined.status) == (0, 2, [])
        assert active(joined) == {"0": [0, 1, 2], "1": [0, 1, 2]}
        topics = client.broker.image.topics
        assert len(topics["g-counts-repartition"].partitions) == 3
        assert topics["g-counts-changelog"].configs["cleanup.policy"] == "compact"
        member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 2}
        assert await client.commit("g", 5, **member) == 0
        member["generation_id_or_member_epoch"] = 3
        assert await client.commit("g", 5, **member) == ErrorCode.STALE_MEMBER_EPOCH

    async def second(client: Client) -> None:
        group = await described(client)
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert group.authorized_operations > 0
        (member,) = group.members
        assert active(member.assignment) == {"0": [0, 1, 2], "1": [0, 1, 2]}
        again = await beat(client, "m", 2)
        assert (again.error_code, again.member_epoch, again.active_tasks) == (0, 2, None)
        (changelog,) = (await described(client)).topology.subtopologies[1].state_changelog_topics
        assert (changelog.name, changelog.partitions) == ("g-counts-changelog", 3)
        assert await client.committed("g") == {0: 5}

    run(tmp_path, first, second, **NO_DELAY)


def test_a_topic_that_cannot_be_created_is_in_the_status(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        wrong = TopicInfo("g-counts-changelog", 0, 7)
        topology = Topology(0, [Subtopology("0", ["t"], state_changelog_topics=[wrong])])
        joined = await beat(client, "m", 0, topology)
        assert (joined.error_code, active(joined)) == (0, {})
        (status,) = joined.status
        assert status.status_code == 3
        assert status.status_detail.startswith(
            "Internal topics are missing: g-counts-changelog; Creation failed:"
            " g-counts-changelog (Unable to replicate the partition 7 time(s)"
        )
        assert (await described(client)).group_state == "NotReady"

    run(tmp_path, act, **NO_DELAY)


def test_a_growing_source_topic_adds_tasks(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await beat(client, "m", 0, Topology(0, [Subtopology("0", ["t"])]))
        assert (await client.broker.controller.create_partitions({"t": (5, None)}))["t"] is None
        grown = await beat(client, "m", 2)
        assert (grown.member_epoch, active(grown)) == (3, {"0": [0, 1, 2, 3, 4]})

    run(tmp_path, act, group_streams_assignment_interval_ms="0", **NO_DELAY)


def test_a_group_can_override_the_brokers_configs(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        own = {"streams.heartbeat.interval.ms": "7000", "streams.num.standby.replicas": "1"}
        await client.broker.settings.alter_group_config("g", lambda before: {**before, **own})
        assert (await beat(client, "m", 0)).heartbeat_interval == 7_000
        second = await beat(client, "n", 0)
        assert second.heartbeat_interval == 7_000
        assert [tasks.subtopology_id for tasks in second.standby_tasks] == ["1"]

    run(tmp_path, act, group_streams_assignment_interval_ms="0", **NO_DELAY)


def test_groups_are_described_by_their_type(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await beat(client, "m", 0)
        listing = await client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=["streams"]))
        assert [(g.group_id, g.protocol_type, g.group_type) for g in listing.groups] == [
            ("g", "streams", "streams")
        ]
        member_id, generation = await client.join("h")
        await client.sync("h", member_id, generation)
        request = StreamsGroupDescribeRequest(["h", "none"])
        answer = await client.ask(ApiKey.STREAMS_GROUP_DESCRIBE, request)
        assert [(g.error_code, g.error_message) for g in answer.groups] == [
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group h is not a streams group."),
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
        ]

    run(tmp_path, act, **NO_DELAY)


def test_the_protocol_is_advertised_and_can_be_switched_off(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        assert (await beat(client, "m", 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
        answer = await client.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1"))
        found = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        assert found["streams.version"] == 1

    run(tmp_path, act, group_coordinator_rebalance_protocols="classic,consumer")
