"""Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and
LeaveGroup, served from the group that the coordinator assigns.

They never wait: JoinGroup is answered with the member's next epoch as its generation, SyncGroup
with what it may own in it. Whenever there is another step to take, a heartbeat says REBALANCE_IN_
PROGRESS, and the member comes with another JoinGroup.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.coordinator.consumer.embedded import (
    owned_partitions,
    read_subscription,
    version_of,
    write_assignment,
)
from ottla.coordinator.consumer.fencing import fence
from ottla.coordinator.consumer.group import JOIN_MEMBER, SYNC_MEMBER, ConsumerGroup
from ottla.coordinator.consumer.heartbeat import (
    advance,
    check_room,
    check_static,
    static_member,
    take_over,
    unknown_member,
)
from ottla.coordinator.consumer.member import (
    ClassicProtocol,
    ConsumerMember,
    MemberState,
)
from ottla.coordinator.consumer.subscription import refresh, update_target
from ottla.coordinator.joining import Joining
from ottla.coordinator.kinds import CONSUMER
from ottla.coordinator.membership import leaving, left
from ottla.coordinator.outcome import Turn
from ottla.coordinator.replies import join_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.primitives import MalformedError

_MEMBER_ID_REQUIRED_FROM: Final = 4


def join(group: ConsumerGroup, joining: Joining, turn: Turn) -> JoinGroupResponse:
    request = joining.request
    check_room(group, request.member_id, turn)
    if not supports(group, joining):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        subscription = read_subscription(joining.protocols[0][1])
    except MalformedError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a malformed subscription") from error
    member_id = request.member_id or joining.new_member_id()
    dynamic = request.group_instance_id is None
    if dynamic and not request.member_id and joining.version >= _MEMBER_ID_REQUIRED_FROM:
        return join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED)
    member = _find_member(group, joining, member_id, turn)
    updated = _updated(member, joining, subscription)
    # Whatever generation it names, or none (before version 2): it may have missed our last answer.
    owned = owned_partitions(subscription, turn.topics)
    is_new = member_id not in group.members
    if updated != member or is_new:
        group.put_member(updated, turn)
    bump = updated.topics != member.topics
    refresh(group, turn, bump=bump)
    update_target(group, turn)
    after = group.members[member_id]
    if bump or not after.is_reconciled(group.target_epoch):
        after = advance(group, after, owned, turn, changed=bump)
    group.cancel_timer(JOIN_MEMBER, member_id, turn)
    group.prolong(after, turn)
    group.set_timer(SYNC_MEMBER, after, after.rebalance_timeout_ms, turn)
    return JoinGroupResponse(
        generation_id=after.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=joining.protocols[0][0],
        member_id=member_id,
    )


def supports(group: ConsumerGroup, joining: Joining) -> bool:
    """Whether somebody who speaks these could be a member, beside the other classic ones."""
    if joining.request.protocol_type != CONSUMER or not joining.protocols:
        return False
    shared = {name for name, _ in joining.protocols}
    if group.classic_count:
        for member in group.members.values():
            if member.classic is not None and member.member_id != joining.request.member_id:
                shared &= {name for name, _ in member.classic.protocols}
    return bool(shared)


def _find_member(
    group: ConsumerGroup, joining: Joining, member_id: str, turn: Turn
) -> ConsumerMember:
    """A classic member that takes an instance's place need not wait until it is released."""
    request = joining.request
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return check_static(group, instance_id, member_id)
    old = static_member(group, instance_id)
    if old is None:
        return ConsumerMember(member_id)
    return take_over(group, old, member_id, turn)


def _updated(
    member: ConsumerMember, joining: Joining, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request = joining.request
    topics = frozenset(subscription.topics)
    return replace(
        member,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        topics=member.topics if topics == member.topics else topics,
        regex="",
        classic=ClassicProtocol(request.session_timeout, joining.protocols),
    )


# -- once it has joined


def sync(group: ConsumerGroup, request: SyncGroupRequest, turn: Turn) -> SyncGroupResponse:
    member, classic = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
        None,
        protocol,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    revokes = member.state is MemberState.UNREVOKED_PARTITIONS
    if member.member_epoch < group.epoch and not revokes:
        # There is a new epoch to join. But who has something to give up is told that first.
        _await_join(group, member, turn)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.cancel_timer(SYNC_MEMBER, member.member_id, turn)
    group.prolong(member, turn)
    return SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=protocol,
        assignment=write_assignment(member.assigned, turn.topics, version_of(metadata)),
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, turn: Turn) -> ErrorCode:
    member, _ = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    group.prolong(member, turn)
    if not _has_to_rejoin(group, member):
        return ErrorCode.NONE
    _await_join(group, member, turn)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    group: ConsumerGroup, request: LeaveGroupRequest, version: int, turn: Turn
) -> LeaveGroupResponse:
    """Members leave together, and are then followed by one epoch."""
    identities = leaving(request, version)
    gone: dict[str, ConsumerMember] = {}
    codes: list[ErrorCode] = []
    for identity in identities:
        try:
            member = _leaving_member(group, identity)
            if member.member_id in gone:
                raise unknown_member(group, member.member_id)
            gone[member.member_id] = member
            codes.append(ErrorCode.NONE)
        except KafkaError as error:
            codes.append(error.code)
    if gone:
        fence(group, list(gone.values()), turn)
    return left(identities, codes, version)


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Of either protocol: this is also how an administrator removes members (KIP-345, KIP-800)."""
    instance_id, member_id = identity.group_instance_id, identity.member_id
    member = group.members.get(member_id)
    if instance_id is not None:
        member = static_member(group, instance_id)
        if member_id:
            member = check_static(group, instance_id, member_id)
    if member is None:
        raise unknown_member(group, instance_id or member_id)
    return member


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicProtocol]:
    member = group.members.get(member_id)
    if instance_id is not None:
        member = check_static(group, instance_id, member_id)
    if member is None or member.classic is None:
        raise unknown_member(group, member_id)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """There is a new epoch, or something to give up, or what it waits for has become free."""
    if member.member_epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    waits = member.state is MemberState.UNRELEASED_PARTITIONS
    return waits and not group.waits_for_others(member)


def _await_join(group: ConsumerGroup, member: ConsumerMember, turn: Turn) -> None:
    if (JOIN_MEMBER, group.group_id, member.member_id) not in turn.deadlines:
        group.set_timer(JOIN_MEMBER, member, member.rebalance_timeout_ms, turn)
