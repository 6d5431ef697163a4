"""JoinGroup: who may come in, under which id, and whether that takes a rebalance.

A dynamic member joins in two steps from v4 on (KIP-394): the first JoinGroup only gives it an id,
so that a client which retries is not counted twice. A static member (KIP-345) is known by its
group instance id; when its process comes back without a member id it takes over its old place, and
whoever still uses the old member id is fenced.
"""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group import Group, State
from ottla.coordinator.member import Member, Protocols, protocols_of
from ottla.coordinator.outcome import Token, Turn
from ottla.coordinator.rebalance import (
    answer_join,
    answer_sync,
    complete_join_if_ready,
    prepare_rebalance,
    prolong_session,
    rebalance_or_complete,
    session_key,
)
from ottla.coordinator.replies import join_error, joined
from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

_MEMBER_ID_REQUIRED_FROM: Final = 4
_SKIP_ASSIGNMENT_FROM: Final = 9


class Joining:
    """One JoinGroup, with what was found out about it on the way."""

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
        """v0 has no timeout of its own for rebalances."""
        if self.version == 0:
            return self.request.session_timeout
        return self.request.rebalance_timeout

    def new_member_id(self) -> str:
        return f"{self.request.group_instance_id or self.client_id}-{self.uuid}"


def join(group: Group, joining: Joining, turn: Turn) -> None:
    request = joining.request
    member_id = request.member_id
    if not _has_room(group, member_id, turn.config.max_size):
        group.remove(member_id)
        turn.reply(joining.token, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        complete_join_if_ready(group, turn)
    elif not group.supports(request.protocol_type, joining.protocols):
        turn.reply(joining.token, join_error(member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif not member_id:
        _join_as_somebody_new(group, joining, turn)
    elif member_id in group.pending_join and request.group_instance_id is None:
        _add_member(group, joining, member_id, turn)
    else:
        code = group.check_member(member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            turn.reply(joining.token, join_error(member_id, code))
        else:
            _rejoin(group, joining, group.members[member_id], turn)


def _has_room(group: Group, member_id: str, size_max: int) -> bool:
    """Those who wait count while members rejoin, so that the last to come are the ones left out."""
    if group.state is State.EMPTY:
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        if member is not None and member.join_token is not None:
            return True
        return group.awaiting_join_count < size_max
    return member is not None or len(group.members) < size_max


def _join_as_somebody_new(group: Group, joining: Joining, turn: Turn) -> None:
    member_id = joining.new_member_id()
    instance_id = joining.request.group_instance_id
    if instance_id is not None:
        current = group.static_members.get(instance_id)
        if current is None:
            _add_member(group, joining, member_id, turn)
        else:
            _take_over(group, joining, group.members[current], member_id, turn)
    elif joining.version >= _MEMBER_ID_REQUIRED_FROM:
        group.pending_join.add(member_id)
        due_ms = turn.now_ms + joining.request.session_timeout
        turn.deadlines.set(session_key(group, member_id), due_ms)
        turn.reply(joining.token, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add_member(group, joining, member_id, turn)


def _add_member(group: Group, joining: Joining, member_id: str, turn: Turn) -> None:
    request = joining.request
    member = Member(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=joining.client_id,
        client_host=joining.client_host,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout,
        protocols=joining.protocols,
    )
    member.new = True
    group.add(member, request.protocol_type)
    group.await_join(member, joining.token)
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    due_ms = turn.now_ms + turn.config.new_member_join_timeout_ms
    turn.deadlines.set(session_key(group, member_id), due_ms)
    rebalance_or_complete(group, turn)


def _rejoin(group: Group, joining: Joining, member: Member, turn: Turn) -> None:
    """A member that asks again for the generation it is in gets that; else there is a new one."""
    unchanged = member.protocols == joining.protocols
    if group.state is State.COMPLETING_REBALANCE and unchanged:
        # It may have missed the first answer.
        turn.reply(joining.token, joined(group, member.member_id))
    elif group.state is State.STABLE and unchanged and group.leader != member.member_id:
        turn.reply(joining.token, joined(group, member.member_id))
    else:
        # A leader that joins again asks for a rebalance: the topics themselves may have changed.
        _update_member(group, joining, member, turn)
        rebalance_or_complete(group, turn)


def _update_member(group: Group, joining: Joining, member: Member, turn: Turn) -> None:
    """The member waits with this request; an earlier one of it is superseded, and answered."""
    answer_join(group, member, turn, member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
    group.update(
        member,
        protocols=joining.protocols,
        rebalance_timeout_ms=joining.rebalance_timeout_ms,
        session_timeout_ms=joining.request.session_timeout,
    )
    group.await_join(member, joining.token)


def _take_over(group: Group, joining: Joining, member: Member, member_id: str, turn: Turn) -> None:
    """A static member came back under a new member id; whoever has the old one is fenced."""
    old = _Place(group, member)
    answer_join(group, member, turn, member.member_id, ErrorCode.FENCED_INSTANCE_ID)
    answer_sync(member, turn, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    turn.deadlines.cancel(session_key(group, member.member_id))
    group.pending_sync.discard(member.member_id)
    group.rename(member, member_id)
    _update_member(group, joining, member, turn)
    prolong_session(group, member, turn)
    if group.state is State.PREPARING_REBALANCE:
        complete_join_if_ready(group, turn)
    elif group.state is State.COMPLETING_REBALANCE:
        # The leader may already be assigning to the old member id.
        prepare_rebalance(group, turn)
    elif group.select_protocol() != group.protocol_name:
        prepare_rebalance(group, turn)
    else:
        # It takes the old assignment, and nobody else has to notice.
        group.take_join_token(member)
        turn.record(*group.record())
        turn.undo(lambda undo, _: old.give_back(group, member, undo))
        turn.reply(joining.token, _welcome_back(group, member_id, joining.version, old.leader))


def _welcome_back(
    group: Group, member_id: str, version: int, old_leader: str | None
) -> JoinGroupResponse:
    """A leader that comes back into a stable group must not assign again.

    From v9 it is told so (KIP-814), and who the members are, for it still has to watch their
    topics. Before, it is made to believe that its former self leads.
    """
    if version >= _SKIP_ASSIGNMENT_FROM:
        return joined(group, member_id, skip_assignment=member_id == group.leader)
    response = joined(group, member_id)
    response.leader = old_leader or ""
    response.members = []
    return response


class _Place:
    """A static member's place before it was taken over, should that not come to be stored."""

    __slots__ = ("leader", "member_id", "protocols", "rebalance_timeout_ms", "session_timeout_ms")

    def __init__(self, group: Group, member: Member) -> None:
        self.leader = group.leader
        self.member_id = member.member_id
        self.protocols = member.protocols
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.session_timeout_ms = member.session_timeout_ms

    def give_back(self, group: Group, member: Member, turn: Turn) -> None:
        turn.deadlines.cancel(session_key(group, member.member_id))
        group.rename(member, self.member_id)
        group.update(
            member,
            protocols=self.protocols,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )
        prolong_session(group, member, turn)
