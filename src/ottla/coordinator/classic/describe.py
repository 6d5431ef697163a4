"""Groups as ListGroups and DescribeGroups show them."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.classic.member import ClassicGroupMember
from ottla.coordinator.group_type import Group
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

_NOT_FOUND_FROM: Final = 6  # the version of DescribeGroups that says so


def listed_group(group: Group) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.kind)


def describe_classic_group(group: ClassicGroup) -> DescribedGroup:
    """Metadata of the members is shown only when the group has chosen a protocol."""
    protocol = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.members.values()],
    )


def describe_unknown_group(group_id: str, version: int, why: str = "") -> DescribedGroup:
    """A group that does not exist is dead; from v6 that is an error (KIP-1043)."""
    if version < _NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=ClassicGroupState.DEAD.value)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=why or f"Group {group_id} not found.",
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
    )


def _described_member(member: ClassicGroupMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.metadata(protocol),
        member.assignment,
    )
