"""SyncGroup, Heartbeat and LeaveGroup: the requests of a classic member that has joined."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.classic.rebalance import (
    assign,
    complete_join_if_ready,
    prepare_rebalance,
    prolong_session,
    remove_member,
    reply_to_sync,
    session_key,
    sync_key,
    sync_response,
)
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.result import Token
from ottla.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_MEMBERS_FROM: Final = 3  # the version of LeaveGroup that can name several members


def sync(group: ClassicGroup, request: SyncGroupRequest, token: Token, event: GroupEvent) -> None:
    code = _check_sync(group, request)
    if code is not ErrorCode.NONE:
        event.reply(token, SyncGroupResponse(error_code=code))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        event.timer.cancel(sync_key(group))
    if group.state is ClassicGroupState.STABLE:
        event.reply(token, sync_response(group, member))
        return
    # An earlier SyncGroup of this member is superseded.
    response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    reply_to_sync(member, event, response)
    member.sync_token = token
    if group.leader == member.member_id:
        assign(group, {a.member_id: a.assignment for a in request.assignments}, event)


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.state is ClassicGroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat(group: ClassicGroup, request: HeartbeatRequest, event: GroupEvent) -> ErrorCode:
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    prolong_session(group, group.members[request.member_id], event)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(
    group: ClassicGroup, request: LeaveGroupRequest, version: int, event: GroupEvent
) -> LeaveGroupResponse:
    """Members leave one by one; then the group rebalances once."""
    identities = leaving_members(request, version)
    codes = [_leave_one(group, identity, event) for identity in identities]
    if ErrorCode.NONE in codes:
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            prepare_rebalance(group, event)
        else:
            complete_join_if_ready(group, event)
    return leave_response(identities, codes, version)


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    if version >= _MEMBERS_FROM:
        return request.members
    return [MemberIdentity(request.member_id)]


def leave_response(
    identities: list[MemberIdentity], codes: list[ErrorCode], version: int
) -> LeaveGroupResponse:
    if version < _MEMBERS_FROM:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(identity.member_id, identity.group_instance_id, code)
            for identity, code in zip(identities, codes, strict=True)
        ]
    )


def _leave_one(group: ClassicGroup, identity: MemberIdentity, event: GroupEvent) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        # An administrator removes a static member by its instance id alone.
        if identity.group_instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[identity.group_instance_id]
    elif member_id in group.pending_join:
        group.remove(member_id)
        event.timer.cancel(session_key(group, member_id))
        return ErrorCode.NONE
    else:
        code = group.check_member(member_id, identity.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
    remove_member(group, group.members[member_id], event)
    return ErrorCode.NONE
