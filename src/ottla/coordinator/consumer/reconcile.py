"""How a member gets from its current assignment to its target, step by step (KIP-848).

    first   it revokes partitions that are not in its target   UNREVOKED_PARTITIONS, old epoch
    then    it gets the partitions that no other member owns   UNRELEASED_PARTITIONS, new epoch
    until   it has all of its target                           STABLE, new epoch

So no partition ever has two owners: a partition is free only when its owner's heartbeat has shown
that it is revoked. These functions are pure: they take a member, and return the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import NamedTuple

from ottla.coordinator.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
    PartitionSet,
    TopicIdPartition,
)
from ottla.errors import ErrorCode, KafkaError


class Goal(NamedTuple):
    """A member's target. `owned` is what its heartbeat reports, None if it reports nothing."""

    epoch: int
    target: PartitionSet
    owned: Set[TopicIdPartition] | None
    subscribed: Set[bytes]  # ids of the topics that it subscribes to now
    subscription_changed: bool
    is_free: Callable[[TopicIdPartition], bool]  # no other member owns it


def reconcile(member: ConsumerGroupMember, goal: Goal) -> ConsumerGroupMember:
    """The member after its next step; the same object if it cannot take one now."""
    state = member.state
    if state is MemberState.STABLE:
        if member.member_epoch != goal.epoch:
            return _advance(member, goal)
        return _unsubscribe(member, goal) if goal.subscription_changed else member
    if state is MemberState.UNREVOKED_PARTITIONS:
        if _holds(goal, member.revoking):
            return _unsubscribe(member, goal) if goal.subscription_changed else member
        return _advance(member, goal)
    if state is MemberState.UNRELEASED_PARTITIONS:
        return _advance(member, goal)
    if goal.owned is None or goal.owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return _advance(member, goal)


def _advance(member: ConsumerGroupMember, goal: Goal) -> ConsumerGroupMember:
    target = {partition for partition in goal.target if partition[0] in goal.subscribed}
    kept = {partition: epoch for partition, epoch in member.assigned.items() if partition in target}
    revoked = {
        partition: epoch for partition, epoch in member.assigned.items() if partition not in target
    }
    if revoked and _holds(goal, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.member_epoch,
            assigned=kept,
            revoking=revoked,
        )
    free = [partition for partition in target - kept.keys() if goal.is_free(partition)]
    whole = len(kept) + len(free) == len(target)
    for partition in free:
        kept[partition] = goal.epoch
    after = replace(
        member,
        state=MemberState.STABLE if whole else MemberState.UNRELEASED_PARTITIONS,
        member_epoch=goal.epoch,
        previous_epoch=member.member_epoch,
        assigned=kept,
        revoking={},
    )
    return member if after == member else after


def _unsubscribe(member: ConsumerGroupMember, goal: Goal) -> ConsumerGroupMember:
    """It unsubscribed from topics, and revokes them at once, before there is a new target."""
    assigned = {
        partition: epoch
        for partition, epoch in member.assigned.items()
        if partition[0] in goal.subscribed
    }
    if len(assigned) == len(member.assigned):
        return member
    revoking = dict(member.revoking)
    for partition, epoch in member.assigned.items():
        if partition not in assigned:
            revoking[partition] = epoch
    if _holds(goal, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )
    return replace(member, previous_epoch=member.member_epoch, assigned=assigned)


def _holds(goal: Goal, partitions: PartitionEpochs) -> bool:
    """True if the member may still own any of these; one that reports nothing may."""
    if goal.owned is None:
        return True
    return not goal.owned.isdisjoint(partitions)
