"""How a classic group comes from one generation to the next.

Everybody rejoins (PreparingRebalance), the leader assigns (CompletingRebalance), everybody fetches
its assignment (Stable). These functions move a group along; what a request may do before it comes
to that is decided in `joining.py` and `membership.py`.
"""

from __future__ import annotations

from typing import Final

from ottla.coordinator.deadlines import Key
from ottla.coordinator.group import Group, State
from ottla.coordinator.member import Member
from ottla.coordinator.outcome import Turn
from ottla.coordinator.replies import join_error, joined
from ottla.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupResponse

SESSION: Final = "session"  # a member was silent for too long
JOIN: Final = "join"  # the group has waited long enough for members to rejoin
SYNC: Final = "sync"  # members that joined did not ask for their assignment

# A client may ask for no rebalance timeout at all; a group that waits in vain is not looked at
# more often than this.
_WAIT_AGAIN_MS_MIN: Final = 1_000


def join_key(group: Group) -> Key:
    return (JOIN, group.group_id, "")


def sync_key(group: Group) -> Key:
    return (SYNC, group.group_id, "")


def session_key(group: Group, member_id: str) -> Key:
    return (SESSION, group.group_id, member_id)


def prolong_session(group: Group, member: Member, turn: Turn) -> None:
    turn.deadlines.set(
        (SESSION, group.group_id, member.member_id), turn.now_ms + member.session_timeout_ms
    )


def rebalance_or_complete(group: Group, turn: Turn) -> None:
    """Somebody joined, left or changed: begin a rebalance, or see if the one under way is done."""
    if group.state is State.PREPARING_REBALANCE:
        complete_join_if_ready(group, turn)
    else:
        prepare_rebalance(group, turn)


def prepare_rebalance(group: Group, turn: Turn) -> None:
    """Ask everybody to rejoin. They learn of it from their next heartbeat, commit or sync."""
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            if member.sync_token is not None:
                answer_sync(member, turn, SyncGroupResponse(error_code=_REBALANCE_IN_PROGRESS))
                prolong_session(group, member, turn)
    group.pending_sync.clear()
    turn.deadlines.cancel(sync_key(group))
    first = group.state is State.EMPTY
    group.transition(State.PREPARING_REBALANCE, turn.now_ms)
    if first:
        # The first members of a group rarely come alone: wait for the others (KIP-134).
        delay_ms = turn.config.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.new_member_added = False
        turn.deadlines.set(join_key(group), turn.now_ms + delay_ms)
    elif group.all_joined:
        complete_join(group, turn)
    else:
        turn.deadlines.set(join_key(group), turn.now_ms + group.rebalance_timeout_ms)


def complete_join_if_ready(group: Group, turn: Turn) -> None:
    """All are here; but a first rebalance keeps waiting, for those it does not know of yet."""
    if (
        group.state is State.PREPARING_REBALANCE
        and group.previous_state is not State.EMPTY
        and group.all_joined
    ):
        complete_join(group, turn)


def complete_join(group: Group, turn: Turn) -> None:
    """Begin the next generation with those who rejoined.

    A dynamic member that did not is out. A static member stays, for as long as its session does.
    """
    turn.deadlines.cancel(join_key(group))
    for member in list(group.members.values()):
        if member.join_token is None and member.group_instance_id is None:
            group.remove(member.member_id)
            turn.deadlines.cancel(session_key(group, member.member_id))
    if not group.elect_leader() and group.members:
        # Only static members, and none of them here: wait until one comes or their sessions end.
        wait_ms = max(group.rebalance_timeout_ms, _WAIT_AGAIN_MS_MIN)
        turn.deadlines.set(join_key(group), turn.now_ms + wait_ms)
        return
    group.next_generation(turn.now_ms)
    if not group.members:
        turn.record(*group.record())
        return
    for member in group.members.values():
        token = group.take_join_token(member)
        if token is not None:
            turn.reply(token, joined(group, member.member_id))
        member.new = False
        prolong_session(group, member, turn)
        group.pending_sync.add(member.member_id)
    turn.deadlines.set(sync_key(group), turn.now_ms + group.rebalance_timeout_ms)


def assign(group: Group, assignments: dict[str, bytes], turn: Turn) -> None:
    """The leader's word: everybody gets its part, whoever is not named gets nothing."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    generation = group.generation
    turn.record(*group.record())
    turn.undo(lambda undo, _: _withdraw(group, generation, undo))
    group.transition(State.STABLE, turn.now_ms)
    for member in group.members.values():
        if member.sync_token is not None:
            answer_sync(member, turn, assigned(group, member))
            prolong_session(group, member, turn)


def assigned(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )


def _withdraw(group: Group, generation: int, turn: Turn) -> None:
    """The assignment could not be stored, so nobody may work by it: everybody joins again."""
    if group.state is State.STABLE and group.generation == generation:
        for member in group.members.values():
            member.assignment = b""
        prepare_rebalance(group, turn)


def answer_join(group: Group, member: Member, turn: Turn, member_id: str, code: ErrorCode) -> None:
    token = group.take_join_token(member)
    if token is not None:
        turn.reply(token, join_error(member_id, code))


def answer_sync(member: Member, turn: Turn, response: SyncGroupResponse) -> None:
    token, member.sync_token = member.sync_token, None
    if token is not None:
        turn.reply(token, response)


def remove_member(group: Group, member: Member, turn: Turn) -> None:
    """Take a member out, telling its client, should it still wait, to join as somebody new."""
    answer_join(group, member, turn, "", ErrorCode.UNKNOWN_MEMBER_ID)
    answer_sync(member, turn, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    turn.deadlines.cancel(session_key(group, member.member_id))


# -- deadlines


def expire_session(group: Group, member_id: str, turn: Turn) -> None:
    """A member was not heard of for its session timeout, or an id was never used."""
    member = group.members.get(member_id)
    if member is not None:
        if member.alive:
            return  # its request waits here; the reply to it prolongs the session
        remove_member(group, member, turn)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            prepare_rebalance(group, turn)
            return
    elif member_id in group.pending_join:
        group.remove(member_id)
    else:
        return
    if group.state is State.PREPARING_REBALANCE and group.all_joined:
        complete_join(group, turn)


def expire_join(group: Group, turn: Turn) -> None:
    """The time to rejoin is over. The first rebalance goes on while new members keep coming."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    remaining_ms = group.initial_remaining_ms
    if group.previous_state is State.EMPTY and group.new_member_added and remaining_ms > 0:
        group.new_member_added = False
        delay_ms = min(turn.config.initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        turn.deadlines.set(join_key(group), turn.now_ms + delay_ms)
    else:
        complete_join(group, turn)


def expire_sync(group: Group, turn: Turn) -> None:
    """Members that joined but never asked for their assignment do no work: go on without them."""
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
        return
    for member in list(group.members.values()):
        if member.member_id in group.pending_sync:
            remove_member(group, member, turn)
    prepare_rebalance(group, turn)


_REBALANCE_IN_PROGRESS: Final = ErrorCode.REBALANCE_IN_PROGRESS
