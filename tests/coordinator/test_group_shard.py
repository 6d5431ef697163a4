"""A shard's handling of versions, records and numbers that transcripts do not show."""

from __future__ import annotations

import itertools
import time

import pytest

from ottla.coordinator.classic.group import ClassicGroupState, GroupCoordinatorConfig
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.records import CommittedOffset, write_offset_key, write_offset_value
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import Message, Writer
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

ID_1 = bytes(range(16))
ID_2 = bytes(range(1, 17))


def make(**config: int) -> GroupCoordinatorShard:
    numbers = itertools.count(1)
    settings = GroupCoordinatorConfig(**{"initial_rebalance_delay_ms": 0, **config})
    shard = GroupCoordinatorShard(0, config=settings, uuid=lambda: str(next(numbers)))
    shard.loaded(0)
    return shard


def join(
    shard: GroupCoordinatorShard, version: int = 3, token: object = "j", **fields: object
) -> CoordinatorResult:
    request = JoinGroupRequest(
        **{  # type: ignore[arg-type]
            "group_id": "g",
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t")],
            **fields,
        }
    )
    return shard.join_group(
        request, version=version, client_id="c", client_host="/h", token=token, now_ms=0
    )


def commit(shard: GroupCoordinatorShard, metadata: str = "", **fields: object) -> CoordinatorResult:
    topic = OffsetCommitRequestTopic("t", ID_1, [OffsetCommitRequestPartition(0, 5, 1, metadata)])
    request = OffsetCommitRequest("g", topics=[topic], **fields)  # type: ignore[arg-type]
    return shard.offset_commit(request, version=9, token="c", now_ms=1_000)


def only(outcome: CoordinatorResult) -> Message:
    ((_, message),) = outcome.replies
    return message


def commit_code(outcome: CoordinatorResult) -> int:
    message = only(outcome)
    assert isinstance(message, OffsetCommitResponse)
    return message.topics[0].partitions[0].error_code


def is_writable(message: Message, version: int) -> bool:
    message.write(Writer(), version)
    return True


def test_before_version_1_the_session_timeout_is_the_rebalance_timeout() -> None:
    shard = make()
    join(shard, version=0, rebalance_timeout=-1)
    assert shard.groups["g"].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize("version", range(10))
def test_joins_that_succeed_and_fail_can_be_written_in_every_version(version: int) -> None:
    shard = make()
    refused = join(shard, version, session_timeout=1)
    assert is_writable(only(refused), version)
    first = join(shard, version)
    if first.replies:
        required = only(first)
        assert isinstance(required, JoinGroupResponse)
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert is_writable(required, version)
        join(shard, version, member_id=required.member_id)
    joined = only(shard.expire(0))
    assert isinstance(joined, JoinGroupResponse)
    assert joined.generation_id == 1
    assert is_writable(joined, version)


@pytest.mark.parametrize("version", range(6))
def test_leave_group_has_one_code_before_version_3_and_one_for_each_member_from_then_on(
    version: int,
) -> None:
    shard = make()
    join(shard)
    shard.expire(0)
    for member_id, code in (("nobody", ErrorCode.UNKNOWN_MEMBER_ID), ("c-1", ErrorCode.NONE)):
        request = LeaveGroupRequest("g", member_id, [MemberIdentity(member_id)])
        response = only(shard.leave_group(request, version=version, token="l", now_ms=0))
        assert isinstance(response, LeaveGroupResponse)
        assert is_writable(response, version)
        if version < 3:
            assert response.error_code == code
        else:
            assert response.error_code == ErrorCode.NONE
            assert [member.error_code for member in response.members] == [code]


def test_leaving_a_group_that_does_not_exist() -> None:
    request = LeaveGroupRequest("x", "a", [MemberIdentity("a")])
    old = only(make().leave_group(request, version=0, token="l", now_ms=0))
    assert old == LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_refused_first_join_leaves_no_group_behind() -> None:
    shard = make()
    for fields in ({"protocols": []}, {"protocol_type": ""}, {"member_id": "a"}):
        outcome = join(shard, **fields)
        assert not outcome.records
    assert not shard.groups


def test_names_too_long_for_a_record_are_refused() -> None:
    shard = make()
    long = "x" * 40_000
    protocols = [JoinGroupRequestProtocol(long, b"")]
    for fields in ({"protocol_type": long}, {"protocols": protocols}, {"group_instance_id": long}):
        response = only(join(shard, **fields))
        assert isinstance(response, JoinGroupResponse)
        assert response.error_code == ErrorCode.INVALID_REQUEST


def test_metadata_may_be_as_long_as_configured() -> None:
    shard = make(offset_metadata_bytes_max=8)
    assert commit_code(commit(shard, "12345678")) == ErrorCode.NONE
    assert commit_code(commit(shard, "123456789")) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    huge = make(offset_metadata_bytes_max=1_000_000)
    assert commit_code(commit(huge, "x" * 40_000)) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_an_old_client_may_choose_how_long_its_offsets_are_kept() -> None:
    shard = make(offsets_retention_check_interval_ms=10)
    commit(shard, retention_time=500)
    shard.expire(1_499)
    assert shard.offsets.get("g", "t", 0) is not None
    outcome = shard.expire(1_510)
    assert shard.offsets.get("g", "t", 0) is None
    assert [value for _, value in outcome.records] == [None, None]  # the offset, then its group


def test_an_offset_of_a_deleted_topic_is_not_returned() -> None:
    shard = make()
    commit(shard)

    def fetch(topic_id: bytes) -> int:
        (topic,) = shard.offset_fetch("g", [OffsetFetchRequestTopics("t", topic_id, [0])])
        return topic.partitions[0].committed_offset

    assert fetch(ID_1) == 5
    assert fetch(bytes(16)) == 5
    assert fetch(ID_2) == -1


def test_a_deleted_topic_removes_only_its_own_offsets() -> None:
    shard = make()
    commit(shard)
    assert not shard.forget_topic("t", ID_2, now_ms=0).records
    assert not shard.forget_topic("u", ID_1, now_ms=0).records
    outcome = shard.forget_topic("t", ID_1, now_ms=0)
    assert outcome.records == [(write_offset_key("g", "t", 0), None)]
    assert shard.offsets.by_group == {}


def test_simultaneous_expirations_are_processed_in_portions() -> None:
    shard = make(offsets_retention_ms=100, offsets_retention_check_interval_ms=100)
    value = write_offset_value(CommittedOffset(1, commit_timestamp_ms=0))
    keys = [write_offset_key("g", "t", partition) for partition in range(2_500)]
    shard.load(Record(key=key, value=value) for key in keys)
    shard.loaded(0)
    counts = []
    while shard.groups:
        assert shard.next_deadline_ms() == 100
        counts.append(len(shard.expire(100).records))
    assert counts == [1_000, 1_000, 501]


def test_a_failed_portion_is_retried_later() -> None:
    shard = make(offsets_retention_ms=100, offsets_retention_check_interval_ms=100)
    value = write_offset_value(CommittedOffset(1, commit_timestamp_ms=0))
    keys = [write_offset_key("g", "t", partition) for partition in range(2_500)]
    shard.load(Record(key=key, value=value) for key in keys)
    shard.loaded(0)
    outcome = shard.expire(100)
    assert not shard.failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=100)
    assert not shard.expire(199).records
    assert shard.next_deadline_ms() == 200
    assert len(shard.expire(200).records) == 1_000


def test_foreign_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    shard = make()
    key = write_offset_key("g", "t", 0)
    shard.load(
        [
            Record(key=None, value=b"no key"),
            Record(key=b"\0\x63\0\1g", value=b"a group of another kind"),
            Record(key=b"\0\3\0\1k", value=b"a consumer group that cannot be read"),
            Record(key=b"\0\1\0", value=b"torn"),
            Record(key=key, value=write_offset_value(CommittedOffset(1))),
            Record(key=key, value=write_offset_value(CommittedOffset(2))),
            Record(key=write_offset_key("h", "t", 0), value=write_offset_value(CommittedOffset(3))),
            Record(key=write_offset_key("h", "t", 0), value=None),
        ]
    )
    outcome = shard.loaded(0)
    assert not outcome.records
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert list(shard.groups) == ["g"]
    assert shard.offsets.get("g", "t", 0) == CommittedOffset(2)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_a_group_without_rejoining_members_is_checked_periodically(timeout_ms: int) -> None:
    shard = make()
    for instance in "ab":
        join(shard, group_instance_id=instance, token=instance)
    leader = shard.expire(0).replies[0][1]
    assert isinstance(leader, JoinGroupResponse)
    shard.sync_group(SyncGroupRequest("g", 1, leader.leader), version=4, token="s", now_ms=0)
    for member in shard.groups["g"].members.values():
        member.rebalance_timeout_ms = timeout_ms
    request = LeaveGroupRequest("g", members=[MemberIdentity("", "b")])
    shard.leave_group(request, version=5, token="l", now_ms=0)
    assert not shard.expire(0).replies
    assert shard.groups["g"].state is ClassicGroupState.PREPARING_REBALANCE
    assert shard.next_deadline_ms() == 1_000


def test_a_thousand_members_join_within_a_second() -> None:
    shard = make(initial_rebalance_delay_ms=3_000)
    began = time.thread_time()
    for number in range(1_000):
        join(shard, version=3, token=number)
    replies: list[tuple[object, Message]] = []
    while not replies:
        due_ms = shard.next_deadline_ms()
        assert due_ms is not None
        replies = shard.expire(due_ms).replies
    members = list(shard.groups["g"].members)
    for member_id in members[1:]:
        request = SyncGroupRequest("g", 1, member_id)
        assert not shard.sync_group(request, version=4, token=member_id, now_ms=0).replies
    assignments = [SyncGroupRequestAssignment(member_id, b"part") for member_id in members]
    request = SyncGroupRequest("g", 1, members[0], assignments=assignments)
    outcome = shard.sync_group(request, version=4, token="leader", now_ms=0)
    assert time.thread_time() - began < 1.0
    assert len(replies) == len(outcome.replies) == 1_000
    assert shard.groups["g"].state is ClassicGroupState.STABLE
