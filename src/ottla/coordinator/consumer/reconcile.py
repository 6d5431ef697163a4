"""How a member comes from what it owns to what it is to own, step by step (KIP-848).

    first   it gives up what it is not to own any more         UNREVOKED_PARTITIONS, old epoch
    then    it gets what nobody else holds                     UNRELEASED_PARTITIONS, new epoch
    until   it has all of its target                           STABLE, new epoch

So no partition has two owners at any time. Pure: a member goes in, a member comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import NamedTuple

from ottla.coordinator.consumer.member import (
    Assigned,
    ConsumerMember,
    MemberState,
    Target,
    TopicPartition,
)
from ottla.errors import ErrorCode, KafkaError


class Goal(NamedTuple):
    """Where a member is to go. `owned` is what it says it holds, None if it does not say."""

    epoch: int
    target: Target
    owned: Set[TopicPartition] | None
    subscribed: Set[bytes]  # ids of the topics that it wants now
    subscription_changed: bool
    is_free: Callable[[TopicPartition], bool]  # whether no other member holds it


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after the next step, or the very same if there is none to take now."""
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


def _advance(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    target = {each for each in goal.target if each[0] in goal.subscribed}
    kept = {each: epoch for each, epoch in member.assigned.items() if each in target}
    revoked = {each: epoch for each, epoch in member.assigned.items() if each not in target}
    if revoked and _holds(goal, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.member_epoch,
            assigned=kept,
            revoking=revoked,
        )
    free = [each for each in target - kept.keys() if goal.is_free(each)]
    whole = len(kept) + len(free) == len(target)
    for each in free:
        kept[each] = goal.epoch
    after = replace(
        member,
        state=MemberState.STABLE if whole else MemberState.UNRELEASED_PARTITIONS,
        member_epoch=goal.epoch,
        previous_epoch=member.member_epoch,
        assigned=kept,
        revoking={},
    )
    return member if after == member else after


def _unsubscribe(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """It left topics: it gives them up at once, before there is another target."""
    assigned = {
        each: epoch for each, epoch in member.assigned.items() if each[0] in goal.subscribed
    }
    if len(assigned) == len(member.assigned):
        return member
    revoking = dict(member.revoking)
    for each, epoch in member.assigned.items():
        if each not in assigned:
            revoking[each] = epoch
    if _holds(goal, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.member_epoch,
            assigned=assigned,
            revoking=revoking,
        )
    return replace(member, previous_epoch=member.member_epoch, assigned=assigned)


def _holds(goal: Goal, partitions: Assigned) -> bool:
    """Whether the member may still hold any of these; one that does not say may."""
    if goal.owned is None:
        return True
    return not goal.owned.isdisjoint(partitions)
