"""ConsumerGroupHeartbeat: a member joins, reports what it owns, gets its assignment, and leaves.

The heartbeat of a reconciled member, in a group where nothing has changed, only extends the
member's session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from ottla.coordinator.consumer.fence import fence
from ottla.coordinator.consumer.group import REBALANCE, ConsumerGroup
from ottla.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    MemberState,
    TopicIdPartition,
)
from ottla.coordinator.consumer.reconcile import Goal, reconcile
from ottla.coordinator.consumer.subscription import (
    matching,
    refresh,
    resolve,
    update_target,
)
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.records import is_recordable
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_OWN_MEMBER_ID_FROM: Final = 1  # from this version on clients generate their member ids (KIP-1082)


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]
) -> None:
    """What can be checked without the group; the messages are Kafka's."""
    epoch = request.member_epoch
    if version >= _OWN_MEMBER_ID_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _invalid_if(not request.member_id.strip(), "MemberId can't be empty.")
    _invalid_if(not request.group_id.strip(), "GroupId can't be empty.")
    _invalid_if(_is_blank(request.instance_id), "InstanceId can't be empty.")
    _invalid_if(_is_blank(request.rack_id), "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _invalid_if(
            request.rebalance_timeout == -1, "RebalanceTimeoutMs must be provided in first request."
        )
        _invalid_if(
            request.topic_partitions is None or bool(request.topic_partitions),
            "TopicPartitions must be empty when (re-)joining.",
        )
        _invalid_if(
            request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining.",
        )
    elif epoch == LEAVE_STATIC_EPOCH:
        _invalid_if(request.instance_id is None, "InstanceId can't be null.")
    else:
        _invalid_if(epoch < LEAVE_EPOCH, "MemberEpoch is invalid.")
    texts = [request.member_id, request.instance_id, request.rack_id]
    texts += [request.subscribed_topic_regex, *(request.subscribed_topic_names or [])]
    _invalid_if(not all(is_recordable(text or "") for text in texts), "A name is over 32 KiB.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _invalid_if(wrong: bool, why: str) -> None:
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


class ConsumerHeartbeat:
    """One heartbeat and its client. A request without a member id (v0) gets a new one."""

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
    def owned(self) -> frozenset[TopicIdPartition] | None:
        """What the member reports that it owns; only read while it has to be reconciled."""
        if self.request.topic_partitions is None:
            return None
        return frozenset(
            (topic.topic_id, index)
            for topic in self.request.topic_partitions
            for index in topic.partitions
        )

    @property
    def is_full_request(self) -> bool:
        """True if every field is set: such a request gets the whole assignment."""
        request = self.request
        return (
            request.rebalance_timeout != -1
            and request.topic_partitions is not None
            and (
                request.subscribed_topic_names is not None
                or request.subscribed_topic_regex is not None
            )
        )


def heartbeat(
    group: ConsumerGroup, beat: ConsumerHeartbeat, event: GroupEvent
) -> ConsumerGroupHeartbeatResponse:
    """KafkaError, before anything has changed, if the member is unknown or fenced."""
    check_group_size(group, beat.member_id, event)
    member, is_new = _find_member(group, beat, event)
    updated = _updated(member, beat)
    if updated.regex and updated.regex not in group.regexes:
        matching(updated.regex, event.topics)  # or an error
    bump = _subscribe(group, member, updated, event, is_new=is_new)
    refresh(group, event, bump=bump)
    update_target(group, event)
    after = group.members[updated.member_id]
    if bump or not after.is_reconciled(group.target_epoch):
        after = advance(group, after, beat.owned, event, changed=bump)
    group.prolong(after, event)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval=event.config.consumer.of_group(group.group_id).heartbeat_interval_ms,
    )
    changed = after.assigned is not member.assigned and after.assigned != member.assigned
    if beat.request.member_epoch == JOIN_EPOCH or beat.is_full_request or changed:
        response.assignment = Assignment(as_topic_partitions(after.assigned))
    return response


def check_group_size(group: ConsumerGroup, member_id: str, event: GroupEvent) -> None:
    if member_id not in group.members and len(group.members) >= event.config.consumer.max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{event.config.consumer.max_size} members.",
        )


# -- the member


def _find_member(
    group: ConsumerGroup, beat: ConsumerHeartbeat, event: GroupEvent
) -> tuple[ConsumerGroupMember, bool]:
    """The member, and True if it is new to the group. A static member may replace its old self."""
    request = beat.request
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = group.members.get(beat.member_id)
        if member is None:
            if not joins:
                raise unknown_member(group, beat.member_id)
            return ConsumerGroupMember(beat.member_id), True
        _check_epoch(member, beat)
        return member, False
    member = static_member(group, request.instance_id)
    if joins:
        if member is None:
            return ConsumerGroupMember(beat.member_id), True
        if member.classic is None:
            _check_released(member, request.instance_id, beat.member_id)
        return replace_static_member(group, member, beat.member_id, event), False
    member = check_static(group, request.instance_id, beat.member_id)
    _check_epoch(member, beat)
    return member, False


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerGroupMember | None:
    member_id = group.static_members.get(instance_id)
    return None if member_id is None else group.members[member_id]


def check_static(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerGroupMember:
    """The member of this instance; KafkaError if the request is from another one (KIP-345)."""
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


def _check_released(member: ConsumerGroupMember, instance_id: str, member_id: str) -> None:
    if member.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} "
            f"cannot join the group because the instance id is owned by {member.member_id} member.",
        )


def _check_epoch(member: ConsumerGroupMember, beat: ConsumerHeartbeat) -> None:
    """The previous epoch is accepted from a member that owns no more than it may, because the
    response with the new epoch may have been lost."""
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


def replace_static_member(
    group: ConsumerGroup, old: ConsumerGroupMember, member_id: str, event: GroupEvent
) -> ConsumerGroupMember:
    """An instance has rejoined under another member id: it gets all that the old member had."""
    new = replace(old, member_id=member_id, member_epoch=0, previous_epoch=0)
    target = group.target_of(old.member_id)
    group.remove_member(old, event)
    group.put_member(new, event)
    group.put_target(member_id, target, event)
    group.put_current(new, event)
    return new


# -- its subscription


def _updated(member: ConsumerGroupMember, beat: ConsumerHeartbeat) -> ConsumerGroupMember:
    """The member with the fields of this request; null fields keep their values."""
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
        return member  # as in nearly every heartbeat
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
    member: ConsumerGroupMember,
    updated: ConsumerGroupMember,
    event: GroupEvent,
    *,
    is_new: bool,
) -> bool:
    """Record a changed member; True if the subscription of the group changes."""
    if updated is member and not is_new:
        return False
    group.put_member(updated, event)
    if updated.regex and updated.regex not in group.regexes:
        resolve(group, updated.regex, event)
    return updated.topics != member.topics or updated.regex != member.regex


def advance(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    owned: frozenset[TopicIdPartition] | None,
    event: GroupEvent,
    *,
    changed: bool,
) -> ConsumerGroupMember:
    """The member takes the next step towards its target, if it can."""
    goal = Goal(
        group.target_epoch,
        group.target_of(member.member_id),
        owned,
        group.topic_ids(member, event.topics),
        changed,
        lambda partition: group.is_free_for(member, partition),
    )
    after = reconcile(member, goal)
    if after is member:
        return member
    group.put_current(after, event)
    if after.state is MemberState.UNREVOKED_PARTITIONS and after.classic is None:
        group.set_timer(REBALANCE, after, after.rebalance_timeout_ms, event)
    else:
        group.cancel_timer(REBALANCE, member.member_id, event)
    return after


# -- leaving


def leave(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, event: GroupEvent
) -> ConsumerGroupHeartbeatResponse:
    """For good; with -2, until the static member rejoins or its session expires."""
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
        group.put_current(away, event)
        group.cancel_timer(REBALANCE, member.member_id, event)
    else:
        fence(group, [member], event)
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch
    )


def as_topic_partitions(assigned: Mapping[TopicIdPartition, int]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, indexes) for topic_id, indexes in by_topic(assigned)]


def by_topic(partitions: Iterable[TopicIdPartition]) -> Iterable[tuple[bytes, list[int]]]:
    found: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        found.setdefault(topic_id, []).append(index)
    return found.items()
