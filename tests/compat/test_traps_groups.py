"""Details on which real clients depend: coordinators, membership and offsets, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from compat_raw import RawClient, code

Until = Callable[[Callable[[], object], str], None]
# A consumer's subscription, version 0, to one topic "t": coordinators read it.
SUBSCRIPTION = struct.pack(">hih1si", 0, 1, 1, b"t", -1)
PROTOCOLS = [{"name": "range", "metadata": SUBSCRIPTION}]


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as opened:
        yield opened


@pytest.fixture
def coordinator(client: RawClient, until: Until) -> RawClient:
    """A client whose broker has its coordinator up: __consumer_offsets is made on first use."""

    def found() -> bool:
        answer = client.call("find_coordinator", 2, key="warm-up", key_type=0)
        return bool(answer.error_code == code("none"))

    until(found, "a group coordinator")

    def loaded() -> bool:
        answer = client.call("offset_fetch", 5, group_id="warm-up", topics=None)
        return bool(answer.error_code == code("none"))

    until(loaded, "the coordinator has loaded")
    return client


def join(client: RawClient, group: str, version: int = 7, **values: Any) -> Any:
    request = {
        "group_id": group, "session_timeout": 30_000, "protocol_type": "consumer",
        "protocols": PROTOCOLS, **values,
    }  # fmt: skip
    if version >= 1:
        request.setdefault("rebalance_timeout", 30_000)
    return client.call("join_group", version, **request)


def joined(client: RawClient, group: str, **values: Any) -> Any:
    """Both steps of a join, and the sync of the leader of a group of one."""
    first = join(client, group, **values)
    assert first.error_code == code("member_id_required")
    second = join(client, group, **{**values, "member_id": first.member_id})
    assert second.error_code == code("none")
    assert second.leader == second.member_id == first.member_id
    sync(client, group, second)
    return second


def sync(client: RawClient, group: str, member: Any, version: int = 5, **values: Any) -> Any:
    request = {
        "group_id": group, "generation_id": member.generation_id, "member_id": member.member_id,
        "assignments": [{"member_id": member.member_id, "assignment": b"mine"}], **values,
    }  # fmt: skip
    if version >= 5:
        request.setdefault("protocol_type", "consumer")
        request.setdefault("protocol_name", "range")
    return client.call("sync_group", version, **request)


def commit(
    client: RawClient, group: str, topic: str, offset: int, version: int = 8, **values: Any
) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
    topics = [{"name": topic, "partitions": [partition]}]
    request = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics, **values}
    answer = client.call("offset_commit", version, **request)
    error: int = answer.topics[0].partitions[0].error_code
    return error


def make_topic(client: RawClient, name: str, until: Until, partitions: int = 1) -> Any:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    (created,) = client.call("create_topics", 7, topics=[topic], timeout=30_000).topics
    assert created.error_code == code("none")

    def ready() -> bool:
        (found,) = client.call("metadata", 9, topics=[{"name": name}]).topics
        return len(found.partitions) == partitions

    until(ready, "the topic is there")
    return created.topic_id


# FindCoordinator


def test_find_coordinator_in_every_version(coordinator: RawClient, bootstrap: str) -> None:
    for version in range(4):
        values = {"key_type": 0} if version >= 1 else {}
        answer = coordinator.call("find_coordinator", version, key="some-group", **values)
        assert answer.error_code == code("none")
        assert f"{answer.host}:{answer.port}" == bootstrap
    for version in range(4, 7):
        answer = coordinator.call(
            "find_coordinator", version, key_type=0, coordinator_keys=["one", "two", "three"]
        )
        assert [found.key for found in answer.coordinators] == ["one", "two", "three"]
        for found in answer.coordinators:
            assert (found.error_code, f"{found.host}:{found.port}") == (code("none"), bootstrap)


# JoinGroup


@pytest.mark.parametrize("version", range(4, 10))
def test_first_join_gets_a_member_id_and_must_rejoin(
    coordinator: RawClient, group_name: str, version: int
) -> None:
    first = join(coordinator, group_name, version)
    assert first.error_code == code("member_id_required")
    assert first.member_id.startswith("raw-")
    second = join(coordinator, group_name, version, member_id=first.member_id)
    assert (second.error_code, second.generation_id) == (code("none"), 1)
    assert second.member_id == second.leader == first.member_id
    assert second.protocol_name == "range"
    assert [(m.member_id, m.metadata) for m in second.members] == [(first.member_id, SUBSCRIPTION)]
    if version >= 7:
        assert second.protocol_type == "consumer"
    synced = sync(coordinator, group_name, second)
    assert (synced.error_code, synced.assignment) == (code("none"), b"mine")
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("version", range(4))
def test_early_join_versions_take_one_step(
    coordinator: RawClient, group_name: str, version: int
) -> None:
    done = join(coordinator, group_name, version)
    assert (done.error_code, done.generation_id) == (code("none"), 1)
    assert done.leader == done.member_id != ""
    synced = sync(coordinator, group_name, done, version=min(version, 3))
    assert (synced.error_code, synced.assignment) == (code("none"), b"mine")


def test_join_refusals(coordinator: RawClient, unique: Callable[[str], str]) -> None:
    group = unique("group")
    assert join(coordinator, "").error_code == code("invalid_group_id")
    for timeout in (1, 100_000_000):
        refused = join(coordinator, group, session_timeout=timeout)
        assert refused.error_code == code("invalid_session_timeout")
    stranger = join(coordinator, group, member_id="never-heard-of")
    assert stranger.error_code == code("unknown_member_id")
    for wrong in ({"protocol_type": ""}, {"protocols": []}):
        refused = join(coordinator, unique("group"), **wrong)
        assert refused.error_code == code("inconsistent_group_protocol")
    joined(coordinator, group)
    for other in (
        {"protocol_type": "connect"},
        {"protocols": [{"name": "other", "metadata": SUBSCRIPTION}]},
    ):
        assert join(coordinator, group, **other).error_code == code("inconsistent_group_protocol")


def test_static_leader_that_comes_back_skips_the_assignment(
    coordinator: RawClient, group_name: str
) -> None:
    """KIP-345, KIP-814: the same instance keeps the generation; from v9 it skips the assignment."""
    first = join(coordinator, group_name, 9, group_instance_id="rock")
    assert first.error_code == code("none")  # a static member needs no second step
    sync(coordinator, group_name, first, group_instance_id="rock")
    again = join(coordinator, group_name, 9, group_instance_id="rock")
    assert (again.error_code, again.generation_id) == (code("none"), first.generation_id)
    assert again.member_id != first.member_id
    assert again.skip_assignment is True
    request = {"group_instance_id": "rock", "assignments": []}
    synced = sync(coordinator, group_name, again, **request)
    assert synced.assignment == b"mine"
    fenced = coordinator.call(
        "heartbeat", 4, group_id=group_name, generation_id=first.generation_id,
        member_id=first.member_id, group_instance_id="rock",
    )  # fmt: skip
    assert fenced.error_code == code("fenced_instance_id")


def test_heartbeats(coordinator: RawClient, group_name: str) -> None:
    member = joined(coordinator, group_name)

    def beat(version: int = 4, **values: Any) -> Any:
        request = {
            "group_id": group_name, "generation_id": member.generation_id,
            "member_id": member.member_id, **values,
        }  # fmt: skip
        return coordinator.call("heartbeat", version, **request).error_code

    for version in range(5):
        assert beat(version) == code("none")
    assert beat(generation_id=99) == code("illegal_generation")
    assert beat(member_id="stranger") == code("unknown_member_id")
    assert beat(group_id=f"{group_name}-ghost") == code("unknown_member_id")


def test_second_member_makes_the_first_rejoin(
    bootstrap: str, coordinator: RawClient, group_name: str, until: Until
) -> None:
    member = joined(coordinator, group_name)
    with RawClient(bootstrap) as other:
        first = join(other, group_name)
        request = {
            "group_id": group_name, "session_timeout": 30_000, "rebalance_timeout": 30_000,
            "protocol_type": "consumer", "protocols": PROTOCOLS, "member_id": first.member_id,
        }  # fmt: skip
        sent = other.send("join_group", 7, **request)
        beat = {
            "group_id": group_name, "generation_id": member.generation_id,
            "member_id": member.member_id,
        }  # fmt: skip
        until(
            lambda: (
                coordinator.call("heartbeat", 3, **beat).error_code == code("rebalance_in_progress")
            ),
            "the first member hears of the rebalance",
        )
        again = join(coordinator, group_name, member_id=member.member_id)
        second = other.receive("join_group", 7, sent)
        assert again.generation_id == second.generation_id == 2
        leader = again if again.leader == again.member_id else second
        assert len(leader.members) == 2
        assert {m.member_id for m in leader.members} == {again.member_id, second.member_id}
        follower = second if leader is again else again
        assert follower.members == ()


def test_leave_group_in_every_version(coordinator: RawClient, unique: Callable[[str], str]) -> None:
    for version in range(6):
        group = unique("leave")
        member = joined(coordinator, group)
        if version < 3:
            answer = coordinator.call(
                "leave_group", version, group_id=group, member_id=member.member_id
            )
            assert answer.error_code == code("none")
        else:
            leaving = [{"member_id": member.member_id}, {"member_id": "stranger"}]
            answer = coordinator.call("leave_group", version, group_id=group, members=leaving)
            assert answer.error_code == code("none")
            assert [m.error_code for m in answer.members] == [
                code("none"),
                code("unknown_member_id"),
            ]


# Offsets


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_of_a_group_never_seen(
    coordinator: RawClient, group_name: str, topic_name: str, version: int
) -> None:
    topics = [{"name": topic_name, "partition_indexes": [0, 3]}]
    answer = coordinator.call("offset_fetch", version, group_id=group_name, topics=topics)
    for partition in answer.topics[0].partitions:
        assert partition.committed_offset == -1
        assert partition.error_code == code("none")
        assert partition.metadata == ""
    if version >= 2:
        assert answer.error_code == code("none")
        everything = coordinator.call("offset_fetch", version, group_id=group_name, topics=None)
        assert everything.topics == ()


@pytest.mark.parametrize("version", range(2, 10))
def test_commit_and_fetch_in_every_version(
    coordinator: RawClient, group_name: str, topic_name: str, until: Until, version: int
) -> None:
    make_topic(coordinator, topic_name, until)
    assert commit(coordinator, group_name, topic_name, 42, version) == code("none")
    for fetch_version in range(2, 8):
        answer = coordinator.call("offset_fetch", fetch_version, group_id=group_name, topics=None)
        (topic,) = answer.topics
        (partition,) = topic.partitions
        assert (topic.name, partition.committed_offset) == (topic_name, 42)
        assert partition.metadata == "note"


def test_offset_fetch_of_several_groups(
    coordinator: RawClient, unique: Callable[[str], str], topic_name: str, until: Until
) -> None:
    make_topic(coordinator, topic_name, until)
    one, two, ghost = unique("one"), unique("two"), unique("ghost")
    commit(coordinator, one, topic_name, 1)
    commit(coordinator, two, topic_name, 2)
    for version in (8, 9):
        groups = [
            {"group_id": one, "topics": None},
            {"group_id": two, "topics": [{"name": topic_name, "partition_indexes": [0, 1]}]},
            {"group_id": ghost, "topics": None},
        ]
        answer = coordinator.call("offset_fetch", version, groups=groups, require_stable=True)
        found = {group.group_id: group for group in answer.groups}
        assert {group.error_code for group in answer.groups} == {code("none")}
        assert found[one].topics[0].partitions[0].committed_offset == 1
        offsets = [p.committed_offset for p in found[two].topics[0].partitions]
        assert offsets == [2, -1]
        assert found[ghost].topics == ()


def test_offsets_by_topic_id(
    coordinator: RawClient, group_name: str, topic_name: str, until: Until
) -> None:
    topic_id = make_topic(coordinator, topic_name, until)
    partition = {"partition_index": 0, "committed_offset": 5}
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    done = coordinator.call(
        "offset_commit", 10, group_id=group_name, generation_id_or_member_epoch=-1, topics=topics
    )
    assert done.topics[0].topic_id == topic_id
    assert done.topics[0].partitions[0].error_code == code("none")
    wanted = [{"topic_id": topic_id, "partition_indexes": [0]}]
    groups = [{"group_id": group_name, "topics": wanted}]
    answer = coordinator.call("offset_fetch", 10, groups=groups)
    assert answer.groups[0].topics[0].topic_id == topic_id
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 5


def test_commit_refusals(
    coordinator: RawClient, group_name: str, topic_name: str, until: Until
) -> None:
    make_topic(coordinator, topic_name, until)
    member = joined(coordinator, group_name)
    now = {"generation_id_or_member_epoch": member.generation_id, "member_id": member.member_id}
    assert commit(coordinator, group_name, topic_name, 1, **now) == code("none")
    stale = {**now, "generation_id_or_member_epoch": 99}
    assert commit(coordinator, group_name, topic_name, 1, **stale) == code("illegal_generation")
    stranger = {**now, "member_id": "stranger"}
    assert commit(coordinator, group_name, topic_name, 1, **stranger) == code("unknown_member_id")
    simple = commit(coordinator, group_name, topic_name, 1)
    assert simple == code("unknown_member_id")
    ghost = commit(coordinator, group_name, f"{topic_name}-ghost", 1, **now)
    assert ghost == code("unknown_topic_or_partition")
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5000}
    topics = [{"name": topic_name, "partitions": [partition]}]
    answer = coordinator.call("offset_commit", 8, group_id=group_name, topics=topics, **now)
    assert answer.topics[0].partitions[0].error_code == code("offset_metadata_too_large")


def test_offset_delete(
    coordinator: RawClient, group_name: str, topic_name: str, until: Until
) -> None:
    make_topic(coordinator, topic_name, until)
    commit(coordinator, group_name, topic_name, 7)
    topics = [{"name": topic_name, "partitions": [{"partition_index": 0}]}]
    answer = coordinator.call("offset_delete", 0, group_id=group_name, topics=topics)
    assert answer.error_code == code("none")
    left = coordinator.call("offset_fetch", 5, group_id=group_name, topics=None)
    assert left.topics == ()
    ghost = coordinator.call("offset_delete", 0, group_id=f"{group_name}-ghost", topics=topics)
    assert ghost.error_code == code("group_id_not_found")


# Listing and describing


def test_describe_and_list_groups_in_every_version(coordinator: RawClient, group_name: str) -> None:
    member = joined(coordinator, group_name)
    for version in range(7):
        (group,) = coordinator.call("describe_groups", version, groups=[group_name]).groups
        assert (group.error_code, group.group_state) == (code("none"), "Stable")
        assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
        (described,) = group.members
        assert (described.member_id, described.client_id) == (member.member_id, "raw")
        assert described.client_host.startswith("/")
        assert (described.member_metadata, described.member_assignment) == (
            SUBSCRIPTION,
            b"mine",
        )
    for version in range(6):
        answer = coordinator.call("list_groups", version)
        listed = {group.group_id: group for group in answer.groups}
        assert listed[group_name].protocol_type == "consumer"
        if version >= 4:
            assert listed[group_name].group_state == "Stable"
            none = coordinator.call("list_groups", version, states_filter=["Empty"])
            assert group_name not in {group.group_id for group in none.groups}
        if version >= 5:
            assert listed[group_name].group_type == "classic"
            none = coordinator.call("list_groups", version, types_filter=["consumer"])
            assert group_name not in {group.group_id for group in none.groups}


def test_a_group_never_seen_is_dead(coordinator: RawClient, group_name: str) -> None:
    for version in range(6):
        (group,) = coordinator.call("describe_groups", version, groups=[group_name]).groups
        assert (group.error_code, group.group_state) == (code("none"), "Dead")
    (group,) = coordinator.call("describe_groups", 6, groups=[group_name]).groups
    assert (group.error_code, group.group_state) == (code("group_id_not_found"), "Dead")


def test_delete_groups(coordinator: RawClient, unique: Callable[[str], str]) -> None:
    for version in range(3):
        busy, ghost = unique("busy"), unique("ghost")
        member = joined(coordinator, busy)
        answer = coordinator.call("delete_groups", version, groups_names=[busy, ghost])
        found = {result.group_id: result.error_code for result in answer.results}
        assert found == {busy: code("non_empty_group"), ghost: code("group_id_not_found")}
        coordinator.call("leave_group", 0, group_id=busy, member_id=member.member_id)
        answer = coordinator.call("delete_groups", version, groups_names=[busy])
        assert answer.results[0].error_code == code("none")
