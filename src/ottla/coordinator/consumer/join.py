"""Which group a heartbeat or a join goes to: created, or converted, if need be."""

from __future__ import annotations

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.join import JoinAttempt
from ottla.coordinator.consumer import classic_members
from ottla.coordinator.consumer.convert import (
    convert_to_classic_group,
    convert_to_consumer_group,
    may_downgrade,
)
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.heartbeat import (
    ConsumerHeartbeat,
    check_request,
    heartbeat,
    leave,
    static_member,
)
from ottla.coordinator.consumer.member import JOIN_EPOCH
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import CONSUMER, find_group
from ottla.coordinator.responses import join_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.join_group import JoinGroupResponse


def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest,
    *,
    version: int,
    member_id: str,
    client_id: str,
    client_host: str,
    event: GroupEvent,
) -> ConsumerGroupHeartbeatResponse:
    """`member_id` is that of the request, or a new one for a client before v1 without one."""
    try:
        check_request(request, version, event.config.consumer.assignors)
        if request.member_epoch < JOIN_EPOCH:
            return leave(_existing(request.group_id, event, "Group"), request, event)
        beat = ConsumerHeartbeat(
            request, member_id=member_id, client_id=client_id, client_host=client_host
        )
        if request.member_epoch > JOIN_EPOCH:
            return heartbeat(_existing(request.group_id, event), beat, event)
        return _join(beat, event)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _existing(group_id: str, event: GroupEvent, word: str = "Consumer group") -> ConsumerGroup:
    return find_group(event.groups, group_id, ConsumerGroup, CONSUMER, word=word)


def _join(beat: ConsumerHeartbeat, event: GroupEvent) -> ConsumerGroupHeartbeatResponse:
    """A join may create the group. If it is then refused, that is undone at once."""
    try:
        group = _group_to_join(beat.request.group_id, event)
        return heartbeat(group, beat, event)
    except KafkaError as error:
        event.take_back(error.code)
        raise


def _group_to_join(group_id: str, event: GroupEvent) -> ConsumerGroup:
    group = event.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return convert_to_consumer_group(group, event)
    if group is not None and not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    new_group = ConsumerGroup(group_id)
    if group is not None:
        for record in group.tombstones():
            event.record(*record)
    event.put_group(new_group)
    return new_group


def classic_join(
    group: ConsumerGroup, attempt: JoinAttempt, event: GroupEvent
) -> JoinGroupResponse | None:
    """A classic member joins a consumer group; None if that has converted it to a classic group.

    It does if the member replaces the last one with the new protocol.
    """
    request = attempt.request
    try:
        instance_id = request.group_instance_id
        old = static_member(group, instance_id) if instance_id is not None else None
        replaces = old is not None and old.classic is None and not request.member_id
        if old is not None and replaces and may_downgrade(group, {old.member_id}, event):
            if not classic_members.supports(group, attempt):
                return join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            convert_to_classic_group(group, {old.member_id}, event)
            return None
        return classic_members.join(group, attempt, event)
    except KafkaError as error:
        event.take_back(error.code)
        return join_error(request.member_id, error.code)
