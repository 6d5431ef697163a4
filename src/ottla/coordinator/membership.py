"""SyncGroup, Heartbeat and LeaveGroup: what a member of a classic group does once it has joined."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group import Group, State
from ottla.coordinator.outcome import Token, Turn
from ottla.coordinator.rebalance import (
    answer_sync,
    assign,
    assigned,
    complete_join_if_ready,
    prepare_rebalance,
    prolong_session,
    remove_member,
    session_key,
    sync_key,
)
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


def sync(group: Group, request: SyncGroupRequest, token: Token, turn: Turn) -> None:
    code = _check_sync(group, request)
    if code is not ErrorCode.NONE:
        turn.reply(token, SyncGroupResponse(error_code=code))
        return
    member = group.members[request.member_id]
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        turn.deadlines.cancel(sync_key(group))
    if group.state is State.STABLE:
        turn.reply(token, assigned(group, member))
        return
    # An earlier SyncGroup of this member is superseded.
    superseded = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    answer_sync(member, turn, superseded)
    member.sync_token = token
    if group.leader == member.member_id:
        assign(group, {a.member_id: a.assignment for a in request.assignments}, turn)


def _check_sync(group: Group, request: SyncGroupRequest) -> ErrorCode:
    if group.state is State.EMPTY:
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
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def heartbeat(group: Group, request: HeartbeatRequest, turn: Turn) -> ErrorCode:
    code = group.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    prolong_session(group, group.members[request.member_id], turn)
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def leave(group: Group, request: LeaveGroupRequest, version: int, turn: Turn) -> LeaveGroupResponse:
    """Members leave one by one, and are then followed by one rebalance."""
    identities = leaving(request, version)
    codes = [_leave_one(group, identity, turn) for identity in identities]
    if ErrorCode.NONE in codes:
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            prepare_rebalance(group, turn)
        else:
            complete_join_if_ready(group, turn)
    return left(identities, codes, version)


def leaving(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    if version >= _MEMBERS_FROM:
        return request.members
    return [MemberIdentity(request.member_id)]


def left(
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


def _leave_one(group: Group, identity: MemberIdentity, turn: Turn) -> ErrorCode:
    member_id = identity.member_id
    if not member_id:
        # An administrator removes a static member by its instance id alone.
        if identity.group_instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[identity.group_instance_id]
    elif member_id in group.pending_join:
        group.remove(member_id)
        turn.deadlines.cancel(session_key(group, member_id))
        return ErrorCode.NONE
    else:
        code = group.check_member(member_id, identity.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
    remove_member(group, group.members[member_id], turn)
    return ErrorCode.NONE
