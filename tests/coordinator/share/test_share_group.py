"""Share groups in a shard of the group coordinator: members, epochs, assignments, restarts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.coordinator import GroupCoordinator
from ottla.coordinator.group import GroupConfig
from ottla.coordinator.kinds import Topics, TopicView
from ottla.coordinator.outcome import Outcome
from ottla.coordinator.share.assignor import assign
from ottla.coordinator.share.coordination import describe, heartbeat, missing_states, share_group
from ottla.coordinator.share.group import ShareGroup, ShareGroupConfig
from ottla.coordinator.share.requests import Beat
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
    """A coordinator with one shard, its log, and the answers that it gave."""

    def __init__(self, **topics: int) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 0
        self.topics = topics
        self.coordinator = self.load()

    def load(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(
            partition_count=1, config=GroupConfig(), uuid=lambda: "unused"
        )
        self.coordinator = coordinator
        self.see(**self.topics)
        shard = coordinator.begin_load(0)
        shard.load([Record(key=key, value=value) for key, value in self.log])
        self.store(coordinator.end_load(0, self.now_ms))
        return coordinator

    def see(self, **topics: int) -> None:
        self.topics = topics
        views = {name: TopicView(name.encode() * 16, count) for name, count in topics.items()}
        self.coordinator.see_topics(Topics(views))

    def store(self, outcome: Outcome) -> None:
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
        beat = Beat(request, "client", "/host", config, missing)
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
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}


def test_a_member_gets_all_partitions_and_then_half_of_them() -> None:
    groups = Groups(a=4)
    first = groups.beat("one", 0, ["a"])
    assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 1)
    assert given_to(first) == {A: [0, 1, 2, 3]}
    assert given_to(groups.beat("one", 1)) is None
    second = groups.beat("two", 0, ["a"])
    assert second.member_epoch == 2
    (mine,) = (given_to(second) or {}).values()
    told = groups.beat("one", 1)
    assert told.member_epoch == 2
    (others,) = (given_to(told) or {}).values()
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


def test_who_leaves_and_who_is_not_heard_of_makes_room() -> None:
    groups = Groups(a=2)
    groups.beat("one", 0, ["a"])
    groups.beat("two", 0, ["a"])
    groups.beat("three", 0, ["a"])
    assert groups.beat("two", -1).member_epoch == -1
    assert groups.beat("two", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    groups.pass_time(SESSION_MS - 1)
    groups.beat("one", 1)
    groups.pass_time(1)
    told = groups.beat("one", share_group(groups.coordinator, "g").members["one"].epoch)
    assert given_to(told) == {A: [0, 1]}
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
def test_what_is_refused(
    member_id: str, epoch: int, topics: list[str] | None, code: ErrorCode
) -> None:
    groups = Groups(a=1)
    groups.beat("one", 0, ["a"])
    assert groups.beat(member_id, epoch, topics, max_size=1).error_code == code
    assert list(share_group(groups.coordinator, "g").members) == ["one"]


def test_the_epoch_before_and_a_second_join_are_taken_for_what_they_are() -> None:
    groups = Groups(a=2)
    groups.beat("one", 0, ["a"])
    groups.beat("two", 0, ["a"])
    groups.beat("one", 1)
    assert groups.beat("one", 1).error_code == ErrorCode.NONE  # the answer was lost on its way
    again = groups.beat("one", 0, ["a"])
    assert again.member_epoch == 2
    assert given_to(again) is not None


def test_a_group_that_is_not_there_cannot_go_on() -> None:
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
    assert [(each.group_id, each.group_type) for each in listed] == [("g", "share")]


def test_a_restart_finds_everything_as_it_was() -> None:
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


def test_a_member_that_a_restart_has_lost_goes_in_the_time_of_its_group() -> None:
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


def test_a_deleted_group_is_gone_after_a_restart_too() -> None:
    groups = Groups(a=3)
    groups.beat("one", 0, ["a"])
    groups.beat("one", -1)
    for outcome in groups.coordinator.delete_groups(["g"], tokens=object, now_ms=0):
        groups.store(outcome)
    assert not groups.load().shards[0].groups


def test_what_cannot_be_stored_never_was() -> None:
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
    partitions = [(A, each) for each in range(first)] + [(B, each) for each in range(second)]
    before = assign(members, partitions, {})
    assert assign(members, partitions, before) == before
    everybody = {**members, **more}
    target = assign(everybody, partitions, before)
    read = {(topic, index) for each in target.values() for topic in each for index in each[topic]}
    wanted = frozenset().union(*everybody.values())
    assert read == {each for each in partitions if each[0] in wanted}
    for member_id, topics in everybody.items():
        assert topics.issuperset(target[member_id])
        assert target[member_id] or not any(topic in topics for topic, _ in partitions)
    if len(set(everybody.values())) == 1 and read:
        sizes = [sum(map(len, each.values())) for each in target.values()]
        assert max(sizes) - min(sizes) <= 1


def test_an_answer_that_was_lost_is_given_again() -> None:
    """The member still is at the epoch before, so it never heard of its new partitions."""
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


def test_a_heartbeat_in_which_nothing_is_new_does_not_ask_what_others_want(
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
