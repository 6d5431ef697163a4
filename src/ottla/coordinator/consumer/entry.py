"""Where requests come in: the group that a heartbeat means, made or converted if need be."""

from __future__ import annotations

from ottla.coordinator.consumer import classic_members
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.heartbeat import (
    Beat,
    check_request,
    heartbeat,
    leave,
    static_member,
)
from ottla.coordinator.consumer.member import JOIN_EPOCH
from ottla.coordinator.consumer.migration import downgrade, may_downgrade, upgrade
from ottla.coordinator.group import Group
from ottla.coordinator.joining import Joining
from ottla.coordinator.outcome import Turn
from ottla.coordinator.replies import join_error
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.join_group import JoinGroupResponse


def consumer_heartbeat(
    request: ConsumerGroupHeartbeatRequest,
    *,
    version: int,
    member_id: str,
    client_id: str,
    client_host: str,
    turn: Turn,
) -> ConsumerGroupHeartbeatResponse:
    """`member_id` is the request's, or a new one for a client before v1 that has none."""
    try:
        check_request(request, version, turn.config.consumer.assignors)
        if request.member_epoch < JOIN_EPOCH:
            return leave(_existing(request.group_id, turn, "Group"), request, turn)
        beat = Beat(request, member_id=member_id, client_id=client_id, client_host=client_host)
        if request.member_epoch > JOIN_EPOCH:
            return heartbeat(_existing(request.group_id, turn), beat, turn)
        return _joined(beat, turn)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _existing(group_id: str, turn: Turn, word: str = "Consumer group") -> ConsumerGroup:
    group = turn.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{word} {group_id} not found.")
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _joined(beat: Beat, turn: Turn) -> ConsumerGroupHeartbeatResponse:
    """A join may make the group. If it is then refused, all of that is taken back at once."""
    try:
        group = _group_to_join(beat.request.group_id, turn)
        return heartbeat(group, beat, turn)
    except KafkaError as error:
        turn.take_back(error.code)
        raise


def _group_to_join(group_id: str, turn: Turn) -> ConsumerGroup:
    group = turn.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if isinstance(group, Group) and not group.is_empty:
        return upgrade(group, turn)
    if group is not None and not isinstance(group, Group):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    made = ConsumerGroup(group_id)
    if group is not None:
        for record in group.tombstones():
            turn.record(*record)
    turn.put_group(made)
    return made


def classic_join(group: ConsumerGroup, joining: Joining, turn: Turn) -> JoinGroupResponse | None:
    """A classic member joins a consumer group; None if that has made it a classic one.

    That is so when it takes the place of the last member which spoke the new protocol.
    """
    request = joining.request
    try:
        instance_id = request.group_instance_id
        old = static_member(group, instance_id) if instance_id is not None else None
        replaces = old is not None and old.classic is None and not request.member_id
        if old is not None and replaces and may_downgrade(group, {old.member_id}, turn):
            if not classic_members.supports(group, joining):
                return join_error("", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            downgrade(group, {old.member_id}, turn)
            return None
        return classic_members.join(group, joining, turn)
    except KafkaError as error:
        turn.take_back(error.code)
        return join_error(request.member_id, error.code)
