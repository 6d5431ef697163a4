"""How a classic group rebalances: from one generation to the next.

All members rejoin (PreparingRebalance), the leader assigns (CompletingRebalance), and all members
fetch their assignments (Stable). These functions move a group along; `join.py` and `heartbeat.py`
check whether a request may.
"""

from __future__ import annotations

from typing import Final

from ottla.coordinator.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.classic.member import ClassicGroupMember
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.responses import join_error, join_response
from ottla.coordinator.timer import TimerKey
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupResponse

SESSION: Final = "session"  # a member sent no heartbeat
JOIN: Final = "join"  # the group stops waiting for members to rejoin
SYNC: Final = "sync"  # members that joined have not sent a SyncGroup

# A client may set a rebalance timeout of 0. A group of static members that are all away is checked
# no more often than this.
_WAIT_AGAIN_MS_MIN: Final = 1_000


def join_key(group: ClassicGroup) -> TimerKey:
    return (JOIN, group.group_id, "")


def sync_key(group: ClassicGroup) -> TimerKey:
    return (SYNC, group.group_id, "")


def session_key(group: ClassicGroup, member_id: str) -> TimerKey:
    return (SESSION, group.group_id, member_id)


def prolong_session(group: ClassicGroup, member: ClassicGroupMember, event: GroupEvent) -> None:
    event.timer.schedule(
        (SESSION, group.group_id, member.member_id), event.now_ms + member.session_timeout_ms
    )


def rebalance_or_complete(group: ClassicGroup, event: GroupEvent) -> None:
    """A member joined, left or changed: start a rebalance, or complete the current one if ready."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        complete_join_if_ready(group, event)
    else:
        prepare_rebalance(group, event)


def prepare_rebalance(group: ClassicGroup, event: GroupEvent) -> None:
    """Start a rebalance: members have to rejoin.

    They learn it from the error code of their next heartbeat, commit or sync. A SyncGroup that
    waits gets REBALANCE_IN_PROGRESS at once, because its generation gets no assignment any more.
    """
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                reply_to_sync(member, event, SyncGroupResponse(error_code=_REBALANCE_IN_PROGRESS))
                prolong_session(group, member, event)
    group.pending_sync.clear()
    event.timer.cancel(sync_key(group))
    first = group.state is ClassicGroupState.EMPTY
    group.transition(ClassicGroupState.PREPARING_REBALANCE, event.now_ms)
    if first:
        # The members of a new group join at about the same time: wait for them (KIP-134).
        delay_ms = event.config.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.new_member_added = False
        event.timer.schedule(join_key(group), event.now_ms + delay_ms)
    elif group.all_joined:
        complete_join(group, event)
    else:
        event.timer.schedule(join_key(group), event.now_ms + group.rebalance_timeout_ms)


def complete_join_if_ready(group: ClassicGroup, event: GroupEvent) -> None:
    """Complete the rebalance if all members have joined.

    The first rebalance of a group goes on until its delay is over, for members not known yet.
    """
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.previous_state is not ClassicGroupState.EMPTY
        and group.all_joined
    ):
        complete_join(group, event)


def complete_join(group: ClassicGroup, event: GroupEvent) -> None:
    """Start the next generation with the members that rejoined.

    A dynamic member that did not is removed. A static member stays until its session expires: it
    may be restarting, and its partitions must not move meanwhile (KIP-345). The new generation
    fences members that missed the rebalance: their requests get ILLEGAL_GENERATION.
    """
    event.timer.cancel(join_key(group))
    for member in list(group.members.values()):
        if member.join_token is None and member.group_instance_id is None:
            group.remove(member.member_id)
            event.timer.cancel(session_key(group, member.member_id))
    if not group.elect_leader() and group.members:
        # Only static members, and none has rejoined: wait for one, or for their sessions to expire.
        wait_ms = max(group.rebalance_timeout_ms, _WAIT_AGAIN_MS_MIN)
        event.timer.schedule(join_key(group), event.now_ms + wait_ms)
        return
    group.next_generation(event.now_ms)
    if not group.members:
        event.record(*group.record())
        return
    for member in group.members.values():
        token = group.take_join_token(member)
        if token is not None:
            event.reply(token, join_response(group, member.member_id))
        member.new = False
        prolong_session(group, member, event)
        group.pending_sync.add(member.member_id)
    assert group.awaiting_join_count == 0  # every waiting JoinGroup has its reply
    event.timer.schedule(sync_key(group), event.now_ms + group.rebalance_timeout_ms)


def assign(group: ClassicGroup, assignments: dict[str, bytes], event: GroupEvent) -> None:
    """The leader has sent the assignments; a member that it left out gets an empty one.

    The replies wait until the record is committed: the next coordinator must know an assignment
    that a member is already using.
    """
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    generation = group.generation
    event.record(*group.record())
    event.undo(lambda undo, _: _withdraw(group, generation, undo))
    group.transition(ClassicGroupState.STABLE, event.now_ms)
    for member in group.members.values():
        if member.sync_token is not None:
            reply_to_sync(member, event, sync_response(group, member))
            prolong_session(group, member, event)


def sync_response(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _withdraw(group: ClassicGroup, generation: int, event: GroupEvent) -> None:
    """The assignment could not be stored, so no member may use it: all have to rejoin."""
    if group.state is ClassicGroupState.STABLE and group.generation == generation:
        for member in group.members.values():
            member.assignment = b""
        prepare_rebalance(group, event)


def reply_to_join(
    group: ClassicGroup,
    member: ClassicGroupMember,
    event: GroupEvent,
    member_id: str,
    code: ErrorCode,
) -> None:
    token = group.take_join_token(member)
    if token is not None:
        event.reply(token, join_error(member_id, code))


def reply_to_sync(
    member: ClassicGroupMember, event: GroupEvent, response: SyncGroupResponse
) -> None:
    token, member.sync_token = member.sync_token, None
    if token is not None:
        event.reply(token, response)


def remove_member(group: ClassicGroup, member: ClassicGroupMember, event: GroupEvent) -> None:
    """Remove a member; its waiting requests get UNKNOWN_MEMBER_ID, so that it joins again."""
    reply_to_join(group, member, event, "", ErrorCode.UNKNOWN_MEMBER_ID)
    reply_to_sync(member, event, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    event.timer.cancel(session_key(group, member.member_id))


# -- deadlines


def expire_session(group: ClassicGroup, member_id: str, event: GroupEvent) -> None:
    """A member sent no heartbeat for its session timeout, or did not use its new member id."""
    member = group.members.get(member_id)
    if member is not None:
        if member.alive:
            return  # its request waits here; the reply to it extends the session
        remove_member(group, member, event)
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            prepare_rebalance(group, event)
            return
    elif member_id in group.pending_join:
        group.remove(member_id)
    else:
        return
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.all_joined:
        complete_join(group, event)


def expire_join(group: ClassicGroup, event: GroupEvent) -> None:
    """The rebalance timeout is over. The first rebalance goes on while new members keep joining."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    remaining_ms = group.initial_remaining_ms
    if (
        group.previous_state is ClassicGroupState.EMPTY
        and group.new_member_added
        and remaining_ms > 0
    ):
        group.new_member_added = False
        delay_ms = min(event.config.initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        event.timer.schedule(join_key(group), event.now_ms + delay_ms)
    else:
        complete_join(group, event)


def expire_sync(group: ClassicGroup, event: GroupEvent) -> None:
    """Members that joined but sent no SyncGroup do no work: go on without them."""
    if (
        group.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
        or not group.pending_sync
    ):
        return
    for member in list(group.members.values()):
        if member.member_id in group.pending_sync:
            remove_member(group, member, event)
    prepare_rebalance(group, event)


_REBALANCE_IN_PROGRESS: Final = ErrorCode.REBALANCE_IN_PROGRESS
