"""Members that leave, or are fenced because a session or rebalance timeout has expired."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.consumer.convert import convert_to_classic_group, may_downgrade
from ottla.coordinator.consumer.group import (
    JOIN_MEMBER,
    REBALANCE,
    SYNC_MEMBER,
    ConsumerGroup,
)
from ottla.coordinator.consumer.member import ConsumerGroupMember, MemberState
from ottla.coordinator.consumer.subscription import refresh
from ottla.coordinator.group_event import GroupEvent


def expire(group: ConsumerGroup, what: str, member_id: str, event: GroupEvent) -> None:
    """A timer of a member is due: fence the member, unless it has done what the timer is for."""
    member = group.members.get(member_id)
    if member is None:
        return
    if what == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    if what in (JOIN_MEMBER, SYNC_MEMBER) and member.classic is None:
        return  # it has upgraded to the new protocol
    fence(group, [member], event)


def fence(group: ConsumerGroup, members: Sequence[ConsumerGroupMember], event: GroupEvent) -> None:
    """Remove members and their assignments. If only classic ones stay, convert the group."""
    if may_downgrade(group, {member.member_id for member in members}, event):
        convert_to_classic_group(group, {member.member_id for member in members}, event)
        return
    for member in members:
        group.remove_member(member, event)
    refresh(group, event, bump=True)
