"""Groups of other types in a shard: the responses to classic requests."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_coordinator import GroupCoordinator
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import GroupType, OffsetCommit
from ottla.coordinator.records import partition_for, write_group_key
from ottla.coordinator.result import RecordBytes
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup


class Strange:
    """The minimal group that a shard can hold."""

    kind: GroupType = "share"
    group_id = "g"
    state_name = "Empty"
    protocol_type = "share"
    is_empty = True

    def check_commit(self, commit: OffsetCommit) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH if member_id else ErrorCode.NONE

    def check_offset_delete(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribes(self, topic: str) -> bool:
        return False

    def expiry_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return None

    def tombstones(self) -> Iterable[RecordBytes]:
        return [(b"strange", None)]

    def start(self, event: GroupEvent) -> None:
        raise AssertionError("never loaded")

    def stop(self, event: GroupEvent, code: ErrorCode) -> None:
        event.reply("stopped", ListGroupsRequest())

    def expire(self, what: str, member_id: str, event: GroupEvent) -> None:
        raise AssertionError("no deadlines")


def coordinator() -> GroupCoordinator:
    made = GroupCoordinator(partition_count=1, config=GroupCoordinatorConfig(), uuid=lambda: "u")
    made.begin_load(partition_for("g", 1), 0)
    made.end_load(0, 0)
    made.shards[0].groups["g"] = Strange()
    return made


def test_groups_are_listed_by_kind() -> None:
    made = coordinator()
    shown = made.list_groups(ListGroupsRequest(types_filter=["Share"])).groups
    assert [(group.group_id, group.group_type, group.protocol_type) for group in shown] == [
        ("g", "share", "share")
    ]
    assert not made.list_groups(ListGroupsRequest(types_filter=["classic"])).groups
    assert not made.list_groups(ListGroupsRequest(states_filter=["Stable"])).groups


def test_describe_groups_knows_only_classic_groups() -> None:
    request = DescribeGroupsRequest(["g"])
    new = coordinator().describe_groups(request, version=6).groups[0]
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.error_message == "Group g is not a classic group."
    assert new.group_state == "Dead"
    assert coordinator().describe_groups(request, version=5).groups[0].error_code == 0


def test_a_group_validates_fetches() -> None:
    answer = coordinator().offset_fetch(OffsetFetchRequestGroup("g", "m", 1), version=9)
    assert answer.error_code == ErrorCode.STALE_MEMBER_EPOCH


def test_each_group_type_defines_its_deletion_and_unloading() -> None:
    made = coordinator()
    assert made.unload(0)[0][0] == "stopped"
    made = coordinator()
    (outcome,) = made.delete_groups(["g"], tokens=lambda: "t", now_ms=1)
    assert outcome.records == [(b"strange", None)]
    assert write_group_key("g") not in dict(outcome.records)
