"""Classic members of a consumer group: their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They never wait. The response to JoinGroup has the member's next epoch as its generation, that to
SyncGroup the partitions that it may own in it. Whenever the member has to take another step, its
heartbeat gets REBALANCE_IN_PROGRESS, and it sends another JoinGroup.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.coordinator.classic.heartbeat import leave_response, leaving_members
from ottla.coordinator.classic.join import JoinAttempt
from ottla.coordinator.consumer.consumer_protocol import (
    consumer_protocol_version,
    owned_partitions,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.consumer.fence import fence
from ottla.coordinator.consumer.group import JOIN_MEMBER, SYNC_MEMBER, ConsumerGroup
from ottla.coordinator.consumer.heartbeat import (
    advance,
    check_group_size,
    check_static,
    replace_static_member,
    static_member,
    unknown_member,
)
from ottla.coordinator.consumer.member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
)
from ottla.coordinator.consumer.subscription import refresh, update_target
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import CONSUMER
from ottla.coordinator.responses import join_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import MalformedError
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBER_ID_REQUIRED_FROM: Final = 4


def join(group: ConsumerGroup, attempt: JoinAttempt, event: GroupEvent) -> JoinGroupResponse:
    request = attempt.request
    check_group_size(group, request.member_id, event)
    if not supports(group, attempt):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        subscription = read_subscription(attempt.protocols[0][1])
    except MalformedError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a malformed subscription") from error
    member_id = request.member_id or attempt.new_member_id()
    dynamic = request.group_instance_id is None
    if dynamic and not request.member_id and attempt.version >= _MEMBER_ID_REQUIRED_FROM:
        return join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED)
    member = _find_member(group, attempt, member_id, event)
    updated = _updated(member, attempt, subscription)
    # Whatever generation it names, or none (before version 2): it may have missed a response.
    owned = owned_partitions(subscription, event.topics)
    is_new = member_id not in group.members
    if updated != member or is_new:
        group.put_member(updated, event)
    bump = updated.topics != member.topics
    refresh(group, event, bump=bump)
    update_target(group, event)
    after = group.members[member_id]
    if bump or not after.is_reconciled(group.target_epoch):
        after = advance(group, after, owned, event, changed=bump)
    group.cancel_timer(JOIN_MEMBER, member_id, event)
    group.prolong(after, event)
    group.set_timer(SYNC_MEMBER, after, after.rebalance_timeout_ms, event)
    return JoinGroupResponse(
        generation_id=after.member_epoch,
        protocol_type=CONSUMER,
        protocol_name=attempt.protocols[0][0],
        member_id=member_id,
    )


def supports(group: ConsumerGroup, attempt: JoinAttempt) -> bool:
    """True if a member with these protocols could join the other classic members."""
    if attempt.request.protocol_type != CONSUMER or not attempt.protocols:
        return False
    shared = {name for name, _ in attempt.protocols}
    if group.classic_count:
        for member in group.members.values():
            if member.classic is not None and member.member_id != attempt.request.member_id:
                shared &= {name for name, _ in member.classic.protocols}
    return bool(shared)


def _find_member(
    group: ConsumerGroup, attempt: JoinAttempt, member_id: str, event: GroupEvent
) -> ConsumerGroupMember:
    """A classic member that replaces a static one need not wait until that has left."""
    request = attempt.request
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    if request.member_id:
        return check_static(group, instance_id, member_id)
    old = static_member(group, instance_id)
    if old is None:
        return ConsumerGroupMember(member_id)
    return replace_static_member(group, old, member_id, event)


def _updated(
    member: ConsumerGroupMember, attempt: JoinAttempt, subscription: ConsumerProtocolSubscription
) -> ConsumerGroupMember:
    request = attempt.request
    topics = frozenset(subscription.topics)
    return replace(
        member,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        topics=member.topics if topics == member.topics else topics,
        regex="",
        classic=ClassicMemberMetadata(request.session_timeout, attempt.protocols),
    )


# -- once it has joined


def sync(group: ConsumerGroup, request: SyncGroupRequest, event: GroupEvent) -> SyncGroupResponse:
    member, classic = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
        None,
        protocol,
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    revokes = member.state is MemberState.UNREVOKED_PARTITIONS
    if member.member_epoch < group.epoch and not revokes:
        # There is a new epoch to join. A member that has to revoke partitions learns that first.
        _await_join(group, member, event)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.cancel_timer(SYNC_MEMBER, member.member_id, event)
    group.prolong(member, event)
    return SyncGroupResponse(
        protocol_type=CONSUMER,
        protocol_name=protocol,
        assignment=write_assignment(
            member.assigned, event.topics, consumer_protocol_version(metadata)
        ),
    )


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, event: GroupEvent) -> ErrorCode:
    member, _ = _classic_member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    group.prolong(member, event)
    if not _has_to_rejoin(group, member):
        return ErrorCode.NONE
    _await_join(group, member, event)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    group: ConsumerGroup, request: LeaveGroupRequest, version: int, event: GroupEvent
) -> LeaveGroupResponse:
    """Members leave together, so the group's epoch rises once."""
    identities = leaving_members(request, version)
    gone: dict[str, ConsumerGroupMember] = {}
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
        fence(group, list(gone.values()), event)
    return leave_response(identities, codes, version)


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    """Of either protocol, because administrators remove members like this (KIP-345, KIP-800)."""
    instance_id, member_id = identity.group_instance_id, identity.member_id
    member = group.members.get(member_id)
    if instance_id is not None:
        member = static_member(group, instance_id)
        if member_id:
            member = check_static(group, instance_id, member_id)
    if member is None:
        raise unknown_member(group, instance_id or member_id)
    return member


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    member = group.members.get(member_id)
    if instance_id is not None:
        member = check_static(group, instance_id, member_id)
    if member is None or member.classic is None:
        raise unknown_member(group, member_id)
    return member, member.classic


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """There is a new epoch, or it has to revoke partitions, or those that it waits for are free."""
    if member.member_epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    waits = member.state is MemberState.UNRELEASED_PARTITIONS
    return waits and not group.waits_for_others(member)


def _await_join(group: ConsumerGroup, member: ConsumerGroupMember, event: GroupEvent) -> None:
    if (JOIN_MEMBER, group.group_id, member.member_id) not in event.timer:
        group.set_timer(JOIN_MEMBER, member, member.rebalance_timeout_ms, event)
