"""Share groups in a shard of the group coordinator: members, epochs, assignments, restarts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.group_type import TopicMetadata, TopicsImage
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.share.assignor import SimpleAssignor
from ottla.coordinator.share.group import ShareGroup, ShareGroupConfig
from ottla.coordinator.share.group_requests import describe, heartbeat, missing_states, share_group
from ottla.coordinator.share.heartbeat import ShareHeartbeat
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

A, B = b"a" * 16, b"b" * 16
SESSION_MS = 45_000


class Groups:
    """A coordinator with one shard, its log, and its responses."""

    def __init__(self, **topics: int) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 0
        self.topics = topics
        self.coordinator = self.load()

    def load(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            partition_count=1, config=GroupCoordinatorConfig(), uuid=lambda: "unused"
        )
        self.coordinator = coordinator
        self.see(**self.topics)
        shard = coordinator.begin_load(0, 0)
        shard.load([Record(key=key, value=value) for key, value in self.log])
        self.store(coordinator.end_load(0, self.now_ms))
        return coordinator

    def see(self, **topics: int) -> None:
        self.topics = topics
        views = {name: TopicMetadata(name.encode() * 16, count) for name, count in topics.items()}
        self.coordinator.see_topics(TopicsImage(views))

    def store(self, outcome: CoordinatorResult) -> None:
        self.log += outcome.records

    def beat(
        self,
        member_id: str,
        epoch: int,
        topics: list[str] | None = None,
        *,
        works: bool = True,
        max_size: int = 200,
        rack_id: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest("g", member_id, epoch, rack_id, topics)
        _, missing = missing_states(self.coordinator, request)
        config = ShareGroupConfig(session_timeout_ms=session_ms, max_size=max_size)
        beat = ShareHeartbeat(request, "client", "/host", config, missing)
        outcome = heartbeat(self.coordinator, beat, token="t", now_ms=self.now_ms)
        replies = outcome.replies
        if not works:
            code = ErrorCode.KAFKA_STORAGE_ERROR
            replies = self.coordinator.failed(outcome, code, now_ms=self.now_ms)
        else:
            self.store(outcome)
        ((_, response),) = replies
        assert isinstance(response, ShareGroupHeartbeatResponse)
        return response

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for outcome in self.coordinator.expire(self.now_ms):
            self.store(outcome)


def given_to(response: ShareGroupHeartbeatResponse) -> dict[bytes, list[int]] | None:
    if response.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}


def test_a_member_gets_all_partitions_and_then_half_of_them() -> None:
    groups = Groups(a=4)
    first = groups.beat("one", 0, ["a"])
    assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 1)
    assert given_to(first) == {A: [0, 1, 2, 3]}
    assert given_to(groups.beat("one", 1)) is None
    second = groups.beat("two", 0, ["a"])
    assert second.member_epoch == 2
    (mine,) = (given_to(second) or {}).values()
    reply = groups.beat("one", 1)
    assert reply.member_epoch == 2
    (others,) = (given_to(reply) or {}).values()
    assert sorted(mine + others) == [0, 1, 2, 3]
    assert len(mine) == len(others) == 2


def test_more_members_than_partitions_share_them() -> None:
    groups = Groups(a=2)
    for member_id in "12345":
        groups.beat(member_id, 0, ["a"])
    readers: dict[int, int] = {0: 0, 1: 0}
    for member in share_group(groups.coordinator, "g").target.values():
        ((index,),) = member.values()
        readers[index] += 1
    assert sorted(readers.values()) == [2, 3]


def test_a_new_topic_and_a_new_partition_are_assigned() -> None:
    groups = Groups(a=1)
    assert given_to(groups.beat("one", 0, ["a", "b"])) == {A: [0]}
    groups.see(a=1, b=1)
    assert given_to(groups.beat("one", 1)) == {A: [0], B: [0]}
    groups.see(a=2, b=1)
    assert given_to(groups.beat("one", 2)) == {A: [0, 1], B: [0]}
    groups.see(b=1)
    for outcome in groups.coordinator.forget_topic("a", A, now_ms=0):
        groups.store(outcome)
    assert given_to(groups.beat("one", 3)) == {B: [0]}
    assert list(share_group(groups.coordinator, "g").initialized) == [B]


def test_members_that_leave_or_expire_make_room() -> None:
    groups = Groups(a=2)
    groups.beat("one", 0, ["a"])
    groups.beat("two", 0, ["a"])
    groups.beat("three", 0, ["a"])
    assert groups.beat("two", -1).member_epoch == -1
    assert groups.beat("two", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    groups.pass_time(SESSION_MS - 1)
    groups.beat("one", 1)
    groups.pass_time(1)
    reply = groups.beat("one", share_group(groups.coordinator, "g").members["one"].epoch)
    assert given_to(reply) == {A: [0, 1]}
    groups.pass_time(SESSION_MS)
    assert share_group(groups.coordinator, "g").state_name == "Empty"


@pytest.mark.parametrize(
    ("member_id", "epoch", "topics", "code"),
    [
        ("one", 7, None, ErrorCode.FENCED_MEMBER_EPOCH),
        ("two", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("two", 0, None, ErrorCode.INVALID_REQUEST),
        ("two", 0, [], ErrorCode.INVALID_REQUEST),
        ("", 0, ["a"], ErrorCode.INVALID_REQUEST),
        ("two", -2, ["a"], ErrorCode.INVALID_REQUEST),
        ("two", 0, ["a"], ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_invalid_requests_are_refused(
    member_id: str, epoch: int, topics: list[str] | None, code: ErrorCode
) -> None:
    groups = Groups(a=1)
    groups.beat("one", 0, ["a"])
    assert groups.beat(member_id, epoch, topics, max_size=1).error_code == code
    assert list(share_group(groups.coordinator, "g").members) == ["one"]


def test_the_previous_epoch_and_a_repeated_join_are_recognised() -> None:
    groups = Groups(a=2)
    groups.beat("one", 0, ["a"])
    groups.beat("two", 0, ["a"])
    groups.beat("one", 1)
    assert groups.beat("one", 1).error_code == ErrorCode.NONE  # the answer was lost on its way
    again = groups.beat("one", 0, ["a"])
    assert again.member_epoch == 2
    assert given_to(again) is not None


def test_a_heartbeat_to_an_unknown_group_is_refused() -> None:
    groups = Groups(a=1)
    assert groups.beat("one", 3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (described,) = describe(groups.coordinator, ["g"])
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_described_and_listed() -> None:
    groups = Groups(a=1)
    groups.beat("one", 0, ["a"], rack_id="r1")
    (described,) = describe(groups.coordinator, ["g"])
    (member,) = described.members
    assert (described.group_state, described.assignor_name) == ("Stable", "simple")
    assert (member.rack_id, member.client_host) == ("r1", "/host")
    assert member.assignment.topic_partitions[0].topic_name == "a"
    listed = groups.coordinator.list_groups(ListGroupsRequest([], ["Share"])).groups
    assert [(group.group_id, group.group_type) for group in listed] == [("g", "share")]


def test_a_restart_restores_everything() -> None:
    groups = Groups(a=3, b=1)
    groups.beat("one", 0, ["a", "b"], rack_id="r")
    groups.beat("two", 0, ["a"])
    groups.beat("one", 1)
    before = share_group(groups.coordinator, "g")
    groups.beat("gone", 0, ["a"])
    groups.beat("gone", -1)
    groups.load()
    after = share_group(groups.coordinator, "g")
    for name in ("epoch", "metadata_hash", "assignment_epoch", "members", "target", "initialized"):
        assert getattr(after, name) == getattr(before, name), name
    epoch = after.members["one"].epoch
    assert groups.beat("one", epoch).error_code == ErrorCode.NONE
    groups.pass_time(SESSION_MS)
    assert share_group(groups.coordinator, "g").is_empty


def test_a_member_lost_in_a_restart_expires_after_the_groups_timeout() -> None:
    groups = Groups(a=4)
    assert groups.beat("gone", 0, ["a"], session_ms=3_000).error_code == 0
    groups.load()
    assert groups.beat("here", 0, ["a"], session_ms=3_000).error_code == 0
    assert set(group_of(groups).members) == {"gone", "here"}
    groups.now_ms += 2_000
    groups.beat("here", group_of(groups).members["here"].epoch, session_ms=3_000)
    groups.now_ms += 1_000
    groups.coordinator.expire(groups.now_ms)
    assert set(group_of(groups).members) == {"here"}


def group_of(groups: Groups) -> ShareGroup:
    return share_group(groups.coordinator, "g")


def test_a_deleted_group_stays_deleted_after_a_restart() -> None:
    groups = Groups(a=3)
    groups.beat("one", 0, ["a"])
    groups.beat("one", -1)
    for outcome in groups.coordinator.delete_groups(["g"], tokens=object, now_ms=0):
        groups.store(outcome)
    assert not groups.load().shards[0].groups


def test_an_unstored_change_has_no_effect() -> None:
    groups = Groups(a=2)
    refused = groups.beat("one", 0, ["a"], works=False)
    assert refused.error_code == ErrorCode.NOT_COORDINATOR
    assert not groups.coordinator.shards[0].groups
    groups.beat("one", 0, ["a"])
    group = share_group(groups.coordinator, "g")
    before = (group.epoch, dict(group.members), dict(group.target))
    groups.beat("two", 0, ["a"], works=False)
    groups.beat("one", -1, works=False)
    assert (group.epoch, group.members, group.target) == before
    groups.pass_time(SESSION_MS)
    assert group.is_empty


def test_an_empty_share_group_is_not_forgotten() -> None:
    groups = Groups(a=1)
    groups.beat("one", 0, ["a"])
    groups.beat("one", -1)
    groups.pass_time(30 * 24 * 3_600_000)
    assert share_group(groups.coordinator, "g").initialized


MEMBERS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2),
    st.frozensets(st.sampled_from([A, B]), min_size=1),
    min_size=1,
    max_size=12,
)


@given(MEMBERS, st.integers(0, 9), st.integers(0, 9), MEMBERS)
def test_assignments_are_complete_and_stay(
    members: dict[str, frozenset[bytes]], first: int, second: int, more: dict[str, frozenset[bytes]]
) -> None:
    partitions = [(A, index) for index in range(first)] + [(B, index) for index in range(second)]
    before = SimpleAssignor(members, partitions, {}).assign()
    assert SimpleAssignor(members, partitions, before).assign() == before
    everybody = {**members, **more}
    target = SimpleAssignor(everybody, partitions, before).assign()
    read = {
        (topic, index)
        for assigned in target.values()
        for topic in assigned
        for index in assigned[topic]
    }
    wanted = frozenset().union(*everybody.values())
    assert read == {partition for partition in partitions if partition[0] in wanted}
    for member_id, topics in everybody.items():
        assert topics.issuperset(target[member_id])
        assert target[member_id] or not any(topic in topics for topic, _ in partitions)
    if len(set(everybody.values())) == 1 and read:
        sizes = [sum(map(len, assigned.values())) for assigned in target.values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_lost_answer_is_repeated() -> None:
    """The member is at the previous epoch, so it never got its new partitions."""
    groups = Groups(a=1)
    joined = groups.beat("m", 0, ["a"])
    groups.see(a=3)
    lost = groups.beat("m", joined.member_epoch)
    assert lost.member_epoch > joined.member_epoch
    again = groups.beat("m", joined.member_epoch)
    assert again.member_epoch == lost.member_epoch
    assert again.assignment == lost.assignment
    assert again.assignment is not None
    assert groups.beat("m", again.member_epoch).assignment is None


def test_an_unchanged_heartbeat_does_not_recompute_subscriptions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = Groups(a=2, b=3)
    epochs = {f"m{n}": groups.beat(f"m{n}", 0, ["a", "b"]).member_epoch for n in range(20)}
    for member_id in epochs:
        epochs[member_id] = groups.beat(member_id, epochs[member_id]).member_epoch

    def asked(group: ShareGroup) -> frozenset[str]:
        raise AssertionError("with a thousand members this takes a millisecond, each time")

    monkeypatch.setattr(ShareGroup, "subscription", asked)
    for member_id, epoch in epochs.items():
        assert groups.beat(member_id, epoch).member_epoch == epoch
    monkeypatch.undo()
    groups.see(a=2, b=4)
    assert groups.beat("m0", epochs["m0"]).member_epoch > epochs["m0"]
    assert share_group(groups.coordinator, "g").initialized[B].partitions == (0, 1, 2, 3)
