"""ConsumerGroupHeartbeat: a member joins, says what it wants and holds, hears what to own, leaves.

A heartbeat of a member that has arrived, in a group where nothing has changed, touches nothing but
the member's session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ottla.coordinator.consumer.fencing import fence
from ottla.coordinator.consumer.group import REBALANCE, ConsumerGroup
from ottla.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    TopicPartition,
)
from ottla.coordinator.consumer.reconcile import Goal, reconcile
from ottla.coordinator.consumer.subscription import (
    matching,
    refresh,
    resolve,
    update_target,
)
from ottla.coordinator.keys import is_recordable
from ottla.coordinator.outcome import Turn
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_OWN_MEMBER_ID_FROM: Final = 1  # the version from which clients make their own ids (KIP-1082)


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> None:
    """What can be said of a request without knowing its group; the words are Kafka's."""
    epoch = request.member_epoch
    if version >= _OWN_MEMBER_ID_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _refuse_if(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse_if(_is_blank(request.instance_id), "InstanceId can't be empty.")
    _refuse_if(_is_blank(request.rack_id), "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _refuse_if(
            request.rebalance_timeout == -1, "RebalanceTimeoutMs must be provided in first request."
        )
        _refuse_if(
            request.topic_partitions is None or bool(request.topic_partitions),
            "TopicPartitions must be empty when (re-)joining.",
        )
        _refuse_if(
            request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining.",
        )
    elif epoch == LEAVE_STATIC_EPOCH:
        _refuse_if(request.instance_id is None, "InstanceId can't be null.")
    else:
        _refuse_if(epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
    texts = [request.member_id, request.instance_id, request.rack_id]
    texts += [request.subscribed_topic_regex, *(request.subscribed_topic_names or [])]
    _refuse_if(not all(is_recordable(text or "") for text in texts), "A name is over 32 KiB.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _refuse_if(wrong: bool, why: str) -> None:
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


class Beat:
    """One heartbeat, with who sent it. `member_id` is given to those who have none (v0)."""

    __slots__ = ("client_host", "client_id", "member_id", "request")

    def __init__(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        member_id: str,
        client_id: str,
        client_host: str,
    ) -> None:
        self.request = request
        self.member_id = member_id
        self.client_id = client_id
        self.client_host = client_host

    @property
    def owned(self) -> frozenset[TopicPartition] | None:
        """What the member says it holds; looked at only while there is something to reconcile."""
        if self.request.topic_partitions is None:
            return None
        return frozenset(
            (topic.topic_id, index)
            for topic in self.request.topic_partitions
            for index in topic.partitions
        )

    @property
    def says_all(self) -> bool:
        """A request with every field set asks for the whole assignment in return."""
        request = self.request
        return (
            request.rebalance_timeout != -1
            and request.topic_partitions is not None
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )


def heartbeat(group: ConsumerGroup, beat: Beat, turn: Turn) -> ConsumerGroupHeartbeatResponse:
    """KafkaError, before anything has changed, for whom the group does not know or trust."""
    check_room(group, beat.member_id, turn)
    member, is_new = _find_member(group, beat, turn)
    updated = _updated(member, beat)
    if updated.regex and updated.regex not in group.regexes:
        matching(updated.regex, turn.topics)  # or an error
    bump = _subscribe(group, member, updated, turn, is_new=is_new)
    refresh(group, turn, bump=bump)
    update_target(group, turn)
    after = group.members[updated.member_id]
    if bump or not after.is_reconciled(group.target_epoch):
        after = advance(group, after, beat.owned, turn, changed=bump)
    group.prolong(after, turn)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval=turn.config.consumer.of_group(group.group_id).heartbeat_interval_ms,
    )
    changed = after.assigned is not member.assigned and after.assigned != member.assigned
    if beat.request.member_epoch == JOIN_EPOCH or beat.says_all or changed:
        response.assignment = Assignment(as_topic_partitions(after.assigned))
    return response


def check_room(group: ConsumerGroup, member_id: str, turn: Turn) -> None:
    if member_id not in group.members and len(group.members) >= turn.config.consumer.max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{turn.config.consumer.max_size} members.",
        )


# -- who is asking


def _find_member(group: ConsumerGroup, beat: Beat, turn: Turn) -> tuple[ConsumerMember, bool]:
    """The member, and whether it is new to the group. A static one may take its old place."""
    request = beat.request
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            if not joins:
                raise unknown_member(group, beat.member_id)
            return ConsumerMember(beat.member_id), True
        _check_epoch(member, beat)
        return member, False
    member = static_member(group, request.instance_id)
    if joins:
        if member is None:
            return ConsumerMember(beat.member_id), True
        if member.classic is None:
            _check_released(member, request.instance_id, beat.member_id)
        return take_over(group, member, beat.member_id, turn), False
    member = check_static(group, request.instance_id, beat.member_id)
    _check_epoch(member, beat)
    return member, False


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerMember | None:
    member_id = group.static_members.get(instance_id)
    return None if member_id is None else group.members[member_id]


def check_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The member of this instance, if it is the one that asks (KIP-345)."""
    member = static_member(group, instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} "
            f"was fenced by member {member.member_id}.",
        )
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _check_released(member: ConsumerMember, instance_id: str, member_id: str) -> None:
    if member.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} "
            f"cannot join the group because the instance id is owned by {member.member_id} member.",
        )


def _check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """The epoch before is let pass from a member that holds no more than it may: the answer with
    the new one may have been lost."""
    epoch, known = beat.request.member_epoch, member.member_epoch
    if epoch in (JOIN_EPOCH, known):
        if member.state is MemberState.UNKNOWN and beat.owned != frozenset():
            raise _fenced("The consumer group member is in a unknown state.")
        return
    if epoch > known:
        raise _fenced(
            f"The consumer group member has a greater member epoch ({epoch}) than the one "
            f"known by the group coordinator ({known})."
        )
    owned = beat.owned
    lost = epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys()
    if not lost:
        raise _fenced(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one "
            f"known by the group coordinator ({known})."
        )


def _fenced(why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"{why} The member must abandon all its partitions and rejoin.",
    )


def take_over(
    group: ConsumerGroup, old: ConsumerMember, member_id: str, turn: Turn
) -> ConsumerMember:
    """An instance came back under another member id: it gets all that the old one had."""
    new = replace(old, member_id=member_id, member_epoch=0, previous_epoch=0)
    target = group.target_of(old.member_id)
    group.remove_member(old, turn)
    group.put_member(new, turn)
    group.put_target(member_id, target, turn)
    group.put_current(new, turn)
    return new


# -- what it wants


def _updated(member: ConsumerMember, beat: Beat) -> ConsumerMember:
    """The member with what this request says; what is null stays as it was."""
    request = beat.request
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout == -1
        and request.instance_id == member.instance_id
        and beat.client_id == member.client_id
        and beat.client_host == member.client_host
        and member.classic is None
    ):
        return member  # as nearly every heartbeat is
    topics = member.topics
    if request.subscribed_topic_names is not None:
        named = frozenset(request.subscribed_topic_names)
        topics = topics if named == topics else named
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout
    changes = {
        "instance_id": member.instance_id if request.instance_id is None else request.instance_id,
        "rack_id": member.rack_id if request.rack_id is None else request.rack_id,
        "rebalance_timeout_ms": member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        "assignor": member.assignor if request.server_assignor is None else request.server_assignor,
        "topics": topics,
        "regex": member.regex if regex is None else regex,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
        "classic": None,
    }
    if all(getattr(member, name) == value for name, value in changes.items()):
        return member
    return replace(member, **changes)  # type: ignore[arg-type]  # named by this file


def _subscribe(
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    turn: Turn,
    *,
    is_new: bool,
) -> bool:
    """Record what is new about a member; True if that changes what the group subscribes to."""
    if updated is member and not is_new:
        return False
    group.put_member(updated, turn)
    if updated.regex and updated.regex not in group.regexes:
        resolve(group, updated.regex, turn)
    return updated.topics != member.topics or updated.regex != member.regex


def advance(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: frozenset[TopicPartition] | None,
    turn: Turn,
    *,
    changed: bool,
) -> ConsumerMember:
    """One step towards the target, if there is one to take."""
    goal = Goal(
        group.target_epoch,
        group.target_of(member.member_id),
        owned,
        group.topic_ids(member, turn.topics),
        changed,
        lambda partition: group.is_free_for(member, partition),
    )
    after = reconcile(member, goal)
    if after is member:
        return member
    group.put_current(after, turn)
    if after.state is MemberState.UNREVOKED_PARTITIONS and after.classic is None:
        group.set_timer(REBALANCE, after, after.rebalance_timeout_ms, turn)
    else:
        group.cancel_timer(REBALANCE, member.member_id, turn)
    return after


# -- leaving


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, turn: Turn
) -> ConsumerGroupHeartbeatResponse:
    """For good, or (-2) for a static member until its instance comes back or its session ends."""
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group, request.member_id)
    else:
        member = check_static(group, request.instance_id, request.member_id)
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        away = replace(
            member,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned=dict.fromkeys(member.assigned, 0),
            revoking={},
        )
        group.put_current(away, turn)
        group.cancel_timer(REBALANCE, member.member_id, turn)
    else:
        fence(group, [member], turn)
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )


def as_topic_partitions(assigned: Mapping[TopicPartition, int]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, indexes) for topic_id, indexes in by_topic(assigned)]


def by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[bytes, list[int]]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return found.items()
