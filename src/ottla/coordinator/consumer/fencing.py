"""Members that go, by their own will or because they were silent or slow for too long."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.consumer.group import (
    JOIN_MEMBER,
    REBALANCE,
    SYNC_MEMBER,
    ConsumerGroup,
)
from ottla.coordinator.consumer.member import ConsumerMember, MemberState
from ottla.coordinator.consumer.migration import downgrade, may_downgrade
from ottla.coordinator.consumer.subscription import refresh
from ottla.coordinator.outcome import Turn


def expire(group: ConsumerGroup, what: str, member_id: str, turn: Turn) -> None:
    """A deadline of a member is over: it is fenced, unless it has done what it was to do."""
    member = group.members.get(member_id)
    if member is None:
        return
    if what == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    if what in (JOIN_MEMBER, SYNC_MEMBER) and member.classic is None:
        return  # it speaks the new protocol by now
    fence(group, [member], turn)


def fence(group: ConsumerGroup, members: Sequence[ConsumerMember], turn: Turn) -> None:
    """Take members out, with all they own. If only classic members are left, so is the group."""
    if may_downgrade(group, {member.member_id for member in members}, turn):
        downgrade(group, {member.member_id for member in members}, turn)
        return
    for member in members:
        group.remove_member(member, turn)
    refresh(group, turn, bump=True)
