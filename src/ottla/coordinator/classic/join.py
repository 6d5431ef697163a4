"""JoinGroup: whether a member may join, under which id, and whether the group has to rebalance.

A dynamic member joins in two steps from v4 on (KIP-394): the first JoinGroup only returns a member
id, so that a client which retries is not counted twice. A static member (KIP-345) is identified by
its group instance id: when its process restarts without a member id it replaces the old member,
and a client that still uses the old member id is fenced.
"""

from __future__ import annotations

from typing import Final

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.classic.member import ClassicGroupMember, Protocols, protocols_of
from ottla.coordinator.classic.rebalance import (
    complete_join_if_ready,
    prepare_rebalance,
    prolong_session,
    rebalance_or_complete,
    reply_to_join,
    reply_to_sync,
    session_key,
)
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.responses import join_error, join_response
from ottla.coordinator.result import Token
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

_MEMBER_ID_REQUIRED_FROM: Final = 4
_SKIP_ASSIGNMENT_FROM: Final = 9


class JoinAttempt:
    """One JoinGroup, with its version, its client and its token."""

    __slots__ = ("client_host", "client_id", "protocols", "request", "token", "uuid", "version")

    def __init__(
        self,
        request: JoinGroupRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        token: Token,
        uuid: str,
    ) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.token = token
        self.uuid = uuid
        self.protocols: Protocols = protocols_of(request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """In v0 the session timeout serves as the rebalance timeout."""
        if self.version == 0:
            return self.request.session_timeout
        return self.request.rebalance_timeout

    def new_member_id(self) -> str:
        return f"{self.request.group_instance_id or self.client_id}-{self.uuid}"


def join(group: ClassicGroup, attempt: JoinAttempt, event: GroupEvent) -> None:
    request = attempt.request
    member_id = request.member_id
    if not _has_room(group, member_id, event.config.max_size):
        group.remove(member_id)
        event.reply(attempt.token, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        complete_join_if_ready(group, event)
    elif not group.supports(request.protocol_type, attempt.protocols):
        event.reply(attempt.token, join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif not member_id:
        _join_as_new_member(group, attempt, event)
    elif member_id in group.pending_join and request.group_instance_id is None:
        _add_member(group, attempt, member_id, event)
    else:
        code = group.check_member(member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            event.reply(attempt.token, join_error(member_id, code))
        else:
            _rejoin(group, attempt, group.members[member_id], event)


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """While members rejoin, those that wait are counted, so that the last ones are left out."""
    if group.state is ClassicGroupState.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        if member is not None and member.join_token is not None:
            return True
        return group.awaiting_join_count < size_max
    return member is not None or len(group.members) < size_max


def _join_as_new_member(group: ClassicGroup, attempt: JoinAttempt, event: GroupEvent) -> None:
    member_id = attempt.new_member_id()
    instance_id = attempt.request.group_instance_id
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            _add_member(group, attempt, member_id, event)
        else:
            _replace_static_member(group, attempt, group.members[current], member_id, event)
    elif attempt.version >= _MEMBER_ID_REQUIRED_FROM:
        group.pending_join.add(member_id)
        due_ms = event.now_ms + attempt.request.session_timeout
        event.timer.schedule(session_key(group, member_id), due_ms)
        event.reply(attempt.token, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add_member(group, attempt, member_id, event)


def _add_member(
    group: ClassicGroup, attempt: JoinAttempt, member_id: str, event: GroupEvent
) -> None:
    request = attempt.request
    member = ClassicGroupMember(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout,
        protocols=attempt.protocols,
    )
    member.new = True
    group.add(member, request.protocol_type)
    group.add_join_token(member, attempt.token)
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.previous_state is ClassicGroupState.EMPTY
    ):
        group.new_member_added = True
    due_ms = event.now_ms + event.config.new_member_join_timeout_ms
    event.timer.schedule(session_key(group, member_id), due_ms)
    rebalance_or_complete(group, event)


def _rejoin(
    group: ClassicGroup, attempt: JoinAttempt, member: ClassicGroupMember, event: GroupEvent
) -> None:
    """A repeated JoinGroup gets the current generation; any other makes the group rebalance."""
    unchanged = member.protocols == attempt.protocols
    if group.state is ClassicGroupState.COMPLETING_REBALANCE and unchanged:
        # It may have missed the first response.
        event.reply(attempt.token, join_response(group, member.member_id))
    elif group.state is ClassicGroupState.STABLE and unchanged and group.leader != member.member_id:
        event.reply(attempt.token, join_response(group, member.member_id))
    else:
        # A leader that rejoins wants a rebalance, because the topics may have changed.
        _update_member(group, attempt, member, event)
        rebalance_or_complete(group, event)


def _update_member(
    group: ClassicGroup, attempt: JoinAttempt, member: ClassicGroupMember, event: GroupEvent
) -> None:
    """The member waits with this request; an earlier request gets REBALANCE_IN_PROGRESS."""
    reply_to_join(group, member, event, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    group.update(
        member,
        protocols=attempt.protocols,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=attempt.request.session_timeout,
    )
    group.add_join_token(member, attempt.token)


def _replace_static_member(
    group: ClassicGroup,
    attempt: JoinAttempt,
    member: ClassicGroupMember,
    member_id: str,
    event: GroupEvent,
) -> None:
    """A static member returns under a new member id; the old member id is fenced."""
    old = _ReplacedMember(group, member)
    reply_to_join(group, member, event, member.member_id, ErrorCode.FENCED_INSTANCE_ID)
    reply_to_sync(member, event, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    event.timer.cancel(session_key(group, member.member_id))
    group.pending_sync.discard(member.member_id)
    group.rename(member, member_id)
    _update_member(group, attempt, member, event)
    prolong_session(group, member, event)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join_if_ready(group, event)
    elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader may already be assigning to the old member id.
        prepare_rebalance(group, event)
    elif group.select_protocol() != group.protocol_name:
        prepare_rebalance(group, event)
    else:
        # It takes over the assignment, and the other members need not rejoin.
        group.take_join_token(member)
        event.record(*group.record())
        event.undo(lambda undo, _: old.restore(group, member, undo))
        event.reply(
            attempt.token, _returning_member_response(group, member_id, attempt.version, old.leader)
        )


def _returning_member_response(
    group: ClassicGroup, member_id: str, version: int, old_leader: str | None
) -> JoinGroupResponse:
    """A leader that returns to a stable group must not assign again.

    From v9 on the response says so (KIP-814), and lists the members, because the leader still has
    to watch their topics. Before v9 the response names the old member id as the leader.
    """
    if version >= _SKIP_ASSIGNMENT_FROM:
        return join_response(group, member_id, skip_assignment=member_id == group.leader)
    response = join_response(group, member_id)
    response.leader = old_leader or ""
    response.members = []
    return response


class _ReplacedMember:
    """A static member before it was replaced, to undo that if it cannot be stored."""

    __slots__ = ("leader", "member_id", "protocols", "rebalance_timeout_ms", "session_timeout_ms")

    def __init__(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        self.leader = group.leader
        self.member_id = member.member_id
        self.protocols = member.protocols
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.session_timeout_ms = member.session_timeout_ms

    def restore(self, group: ClassicGroup, member: ClassicGroupMember, event: GroupEvent) -> None:
        event.timer.cancel(session_key(group, member.member_id))
        group.rename(member, self.member_id)
        group.update(
            member,
            protocols=self.protocols,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )
        prolong_session(group, member, event)
