"""Which shard has a group, errors for groups elsewhere, and requests that span shards."""

from __future__ import annotations

import itertools

import pytest

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.records import partition_for
from ottla.coordinator.result import CoordinatorResult, coordinator_code
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import OffsetDeleteRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest

COUNT = 4
GROUPS = ["a", "b", "c", "d", "e"]


def make(*loaded: int) -> GroupCoordinator:
    numbers = itertools.count(1)
    coordinator = GroupCoordinator(
        partition_count=COUNT,
        config=GroupCoordinatorConfig(initial_rebalance_delay_ms=0),
        uuid=lambda: str(next(numbers)),
    )
    for partition in loaded:
        coordinator.begin_load(partition, 0)
        coordinator.end_load(partition, 0)
    return coordinator


def topics() -> list[OffsetCommitRequestTopic]:
    return [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 7)])]


def commit(coordinator: GroupCoordinator, group_id: str) -> CoordinatorResult:
    request = OffsetCommitRequest(group_id, topics=topics())
    return coordinator.offset_commit(request, version=9, token="c", now_ms=0)


def code_of(outcome: CoordinatorResult) -> int:
    ((_, message),) = outcome.replies
    if isinstance(message, OffsetCommitResponse):
        return message.topics[0].partitions[0].error_code
    return int(message.error_code)  # type: ignore[attr-defined]


def everything(coordinator: GroupCoordinator, group_id: str) -> dict[str, int]:
    """The response of each API with one group."""
    joining = JoinGroupRequest(
        group_id, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
    )
    asked = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
    token, now_ms = "t", 0
    return {
        "join": code_of(
            coordinator.join_group(
                joining, version=4, client_id="c", client_host="h", token=token, now_ms=now_ms
            )
        ),
        "sync": code_of(
            coordinator.sync_group(
                SyncGroupRequest(group_id), version=4, token=token, now_ms=now_ms
            )
        ),
        "heartbeat": code_of(
            coordinator.heartbeat(HeartbeatRequest(group_id), token=token, now_ms=now_ms)
        ),
        "leave": code_of(
            coordinator.leave_group(
                LeaveGroupRequest(group_id), version=1, token=token, now_ms=now_ms
            )
        ),
        "commit": code_of(commit(coordinator, group_id)),
        "fetch": coordinator.offset_fetch(
            OffsetFetchRequestGroup(group_id, topics=asked), version=8
        ).error_code,
        "offset delete": code_of(
            coordinator.offset_delete(OffsetDeleteRequest(group_id), token=token, now_ms=now_ms)
        ),
        "describe": coordinator.describe_groups(DescribeGroupsRequest([group_id]), version=6)
        .groups[0]
        .error_code,
        "delete": deleted(coordinator, [group_id])[group_id],
    }


def deleted(coordinator: GroupCoordinator, group_ids: list[str]) -> dict[str, int]:
    codes: dict[str, int] = {}
    for outcome in coordinator.delete_groups(group_ids, tokens=object, now_ms=0):
        for _, message in outcome.replies:
            assert isinstance(message, DeleteGroupsResponse)
            codes |= {result.group_id: result.error_code for result in message.results}
    return codes


def test_a_broker_without_the_shard_is_not_the_coordinator() -> None:
    assert set(everything(make(), "a").values()) == {ErrorCode.NOT_COORDINATOR}


def test_requests_to_a_loading_shard_are_refused_but_heartbeats_pass() -> None:
    coordinator = make()
    coordinator.begin_load(partition_for("a", COUNT), 0)
    reply = everything(coordinator, "a")
    assert reply.pop("heartbeat") == ErrorCode.NONE
    assert set(reply.values()) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    listing = coordinator.list_groups(ListGroupsRequest())
    assert listing.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_members_need_a_group_name_but_offsets_do_not() -> None:
    reply = everything(make(*range(COUNT)), "")
    for name in ("join", "sync", "heartbeat", "leave", "offset delete"):
        assert reply[name] == ErrorCode.INVALID_GROUP_ID
    for name in ("commit", "fetch", "describe", "delete"):
        assert reply[name] == ErrorCode.NONE


def test_a_name_that_no_record_can_hold_is_invalid() -> None:
    reply = everything(make(*range(COUNT)), "g" * 40_000)
    assert set(reply.values()) == {ErrorCode.INVALID_GROUP_ID}


def test_offset_fetch_v1_has_the_error_of_the_group_in_each_partition() -> None:
    asked = OffsetFetchRequestGroup("a", topics=[OffsetFetchRequestTopics("t", bytes(16), [3])])
    (topic,) = make().offset_fetch(asked, version=1).topics
    (partition,) = topic.partitions
    assert partition.partition_index == 3
    assert partition.error_code == ErrorCode.NOT_COORDINATOR
    assert partition.committed_offset == -1


def test_groups_are_listed_from_all_shards_and_filtered() -> None:
    coordinator = make(*range(COUNT))
    for group_id in GROUPS:
        commit(coordinator, group_id)

    def names(*states: str, types: tuple[str, ...] = ()) -> list[str]:
        listed = coordinator.list_groups(ListGroupsRequest(list(states), list(types)))
        return sorted(group.group_id for group in listed.groups)

    assert names() == GROUPS
    assert names("empty") == names("Stable", " EMPTY ") == GROUPS
    assert names("Stable") == names("NoSuchState") == []
    assert names(types=("Classic",)) == names(types=("consumer", "classic")) == GROUPS
    assert names(types=("consumer",)) == []


def test_an_unknown_group_is_dead_and_from_version_6_an_error() -> None:
    coordinator = make(*range(COUNT))
    request = DescribeGroupsRequest(["a"])
    (old,) = coordinator.describe_groups(request, version=5).groups
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    (new,) = coordinator.describe_groups(request, version=6).groups
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group a not found."


def test_deletions_are_split_by_shard_with_separate_tokens_and_records() -> None:
    coordinator = make(*range(COUNT))
    for group_id in GROUPS:
        commit(coordinator, group_id)
    outcomes = coordinator.delete_groups(["a", *GROUPS, "x"], tokens=object, now_ms=0)
    assert len({token for outcome in outcomes for token, _ in outcome.replies}) == len(outcomes)
    assert len({outcome.partition for outcome in outcomes}) == len(outcomes)
    assert sum(len(outcome.records) for outcome in outcomes) == 2 * len(GROUPS)
    assert deleted(coordinator, ["a"]) == {"a": ErrorCode.GROUP_ID_NOT_FOUND}


def test_a_remote_shard_does_not_block_deletions_in_others() -> None:
    here = partition_for("a", COUNT)
    elsewhere = next(name for name in GROUPS if partition_for(name, COUNT) != here)
    coordinator = make(here)
    commit(coordinator, "a")
    codes = deleted(coordinator, ["a", elsewhere])
    assert codes == {"a": ErrorCode.NONE, elsewhere: ErrorCode.NOT_COORDINATOR}


def test_the_next_deadline_is_the_earliest_of_all_shards() -> None:
    coordinator = make(*range(COUNT))
    check_ms = coordinator.config.offsets_retention_check_interval_ms
    assert coordinator.next_deadline_ms() == check_ms
    assert coordinator.expire(check_ms - 1) == []
    assert len(coordinator.expire(check_ms)) == COUNT
    assert coordinator.next_deadline_ms() == 2 * check_ms


def test_a_new_configuration_reaches_the_shards() -> None:
    coordinator = make(*range(COUNT))
    coordinator.configure(GroupCoordinatorConfig(offset_metadata_bytes_max=0))
    request = OffsetCommitRequest("a", topics=topics())
    request.topics[0].partitions[0].committed_metadata = "!"
    outcome = coordinator.offset_commit(request, version=9, token="c", now_ms=0)
    assert code_of(outcome) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_an_unloaded_shard_is_not_coordinated_here() -> None:
    coordinator = make(*range(COUNT))
    request = HeartbeatRequest("a", 1, "m")
    ((_, here),) = coordinator.heartbeat(request, token="t", now_ms=0).replies
    assert here == HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert coordinator.unload(partition_for("a", COUNT)) == []
    ((_, gone),) = coordinator.heartbeat(request, token="t", now_ms=0).replies
    assert gone == HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)


@pytest.mark.parametrize(
    ("ended_in", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_failed_append_becomes_a_code_of_the_coordinator(
    ended_in: ErrorCode, expected: ErrorCode
) -> None:
    assert coordinator_code(ended_in) is expected
