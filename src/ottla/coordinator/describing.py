"""Groups as ListGroups and DescribeGroups show them."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group import Group, State
from ottla.coordinator.kinds import AnyGroup
from ottla.coordinator.member import Member
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

_NOT_FOUND_FROM: Final = 6  # the version of DescribeGroups that says so


def listed(group: AnyGroup) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state_name, group.kind)


def described(group: Group) -> DescribedGroup:
    """What members brought with them is shown once the group has chosen a protocol by it."""
    protocol = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.members.values()],
    )


def described_unknown(group_id: str, version: int, why: str = "") -> DescribedGroup:
    """A group that does not exist is dead; from v6 that is an error (KIP-1043)."""
    if version < _NOT_FOUND_FROM:
        return DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=why or f"Group {group_id} not found.",
        group_id=group_id,
        group_state=State.DEAD.value,
    )


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        b"" if protocol is None else member.metadata(protocol),
        member.assignment,
    )
