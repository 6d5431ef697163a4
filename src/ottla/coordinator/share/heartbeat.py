"""ShareGroupHeartbeat and ShareGroupDescribe in the shard of the group (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import SHARE, Group, TopicsImage, find_group
from ottla.coordinator.records import is_recordable
from ottla.coordinator.share.group import ASSIGNOR, ShareGroup, ShareGroupConfig, ShareGroupMember
from ottla.coordinator.share.group_records import (
    Partitions,
    ShareGroupMemberMetadata,
    StatePartitions,
    read_share_group_key,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_describe import Assignment as DescribedAssignment
from ottla.wire.messages.share_group_describe import DescribedGroup, Member
from ottla.wire.messages.share_group_describe import TopicPartitions as DescribedPartitions
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

Groups = dict[str, Group]


class ShareHeartbeat(NamedTuple):
    """A heartbeat and its client; `initialized` are partitions whose states were just created."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    config: ShareGroupConfig
    initialized: Mapping[bytes, StatePartitions]


def find_share_group(groups: Groups, group_id: str) -> ShareGroup:
    return find_group(groups, group_id, ShareGroup, SHARE)


def restore_share_group(groups: Groups, key: bytes, value: bytes) -> bool:
    """A record of a partition that is loaded; False if it is not of a share group."""
    found = read_share_group_key(key)
    if found is None:
        return False
    kind, group_id, member_id = found
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        group = groups[group_id] = ShareGroup(group_id)
    group.restore(kind, member_id, value)
    return True


def forget_shared_topic(groups: Groups, topic_id: bytes, event: GroupEvent) -> None:
    """The topic was deleted."""
    for group in groups.values():
        if isinstance(group, ShareGroup):
            group.forget([topic_id], event)


def missing_states(
    groups: Groups, request: ShareGroupHeartbeatRequest, topics: TopicsImage
) -> tuple[int, Mapping[bytes, StatePartitions]]:
    """Partitions without a state that this heartbeat may assign, and the epoch for the states."""
    group = groups.get(request.group_id)
    if group is None:
        group = ShareGroup(request.group_id)
    if not isinstance(group, ShareGroup) or request.member_epoch < 0 or _wrong(request):
        return 0, {}
    return group.epoch, group.uninitialized(request.subscribed_topic_names or (), topics)


def heartbeat(
    groups: Groups, beat: ShareHeartbeat, event: GroupEvent
) -> ShareGroupHeartbeatResponse:
    try:
        return _heartbeat(groups, beat, event)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )


def _heartbeat(
    groups: Groups, beat: ShareHeartbeat, event: GroupEvent
) -> ShareGroupHeartbeatResponse:
    request = beat.request
    wrong = _wrong(request)
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    if request.member_epoch == JOIN_EPOCH and request.group_id not in groups:
        group = _new_group(groups, request.group_id, event)
    else:
        group = find_share_group(groups, request.group_id)
    if request.member_epoch == LEAVE_EPOCH:
        group.check_epoch(request.member_id, JOIN_EPOCH)
        group.remove(request.member_id, event)
        return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_EPOCH)
    return _beat(group, beat, event)


def _beat(
    group: ShareGroup, beat: ShareHeartbeat, event: GroupEvent
) -> ShareGroupHeartbeatResponse:
    request, config = beat.request, beat.config
    known = group.members.get(request.member_id)
    if known is None and request.member_epoch == JOIN_EPOCH:
        if len(group.members) >= config.max_size:
            message = f"The share group has reached its maximum capacity of {config.max_size}."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    else:
        group.check_epoch(request.member_id, request.member_epoch)
    group.configure(config, event)
    before: Partitions | None = None
    if known is not None and request.member_epoch == known.epoch:
        before = known.assigned  # else it joins, or has missed a response
    member = group.heartbeat(
        request.member_id, _metadata_of(known, beat), initialized=beat.initialized, event=event
    )
    assignment = None
    if member.assigned != before:
        assignment = Assignment(
            [
                TopicPartitions(topic_id, list(indexes))
                for topic_id, indexes in member.assigned.items()
            ]
        )
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval=config.heartbeat_interval_ms,
        assignment=assignment,
    )


def _metadata_of(member: ShareGroupMember | None, beat: ShareHeartbeat) -> ShareGroupMemberMetadata:
    """Fields that a heartbeat leaves out have not changed."""
    request = beat.request
    rack_id, subscribed = request.rack_id, request.subscribed_topic_names
    before = ShareGroupMemberMetadata(None, "", "", ()) if member is None else member.metadata
    return ShareGroupMemberMetadata(
        before.rack_id if rack_id is None else rack_id,
        beat.client_id,
        beat.client_host,
        before.subscribed if subscribed is None else tuple(sorted(set(subscribed))),
    )


def _new_group(groups: Groups, group_id: str, event: GroupEvent) -> ShareGroup:
    group = ShareGroup(group_id)
    add(groups, group, event)
    return group


def add(groups: Groups, group: ShareGroup, event: GroupEvent) -> None:
    """Add a new group; it is removed again if its first records cannot be stored."""
    groups[group.group_id] = group
    event.undo(lambda undo, code: _drop(groups, group, undo, code))


def _drop(groups: Groups, group: ShareGroup, event: GroupEvent, code: ErrorCode) -> None:
    group.stop(event, code)
    del groups[group.group_id]


def _wrong(request: ShareGroupHeartbeatRequest) -> str:
    """Why a heartbeat is invalid; empty if it is valid. The messages are Kafka's."""
    names = request.subscribed_topic_names
    if not request.group_id:
        return "GroupId can't be empty."
    if not request.member_id:
        return "MemberId can't be empty."
    if request.rack_id == "":
        return "RackId can't be empty."
    if request.member_epoch == JOIN_EPOCH and not names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVE_EPOCH:
        return "MemberEpoch is invalid."
    texts = [request.member_id, request.rack_id or "", *(names or ())]
    if not all(map(is_recordable, texts)):
        return "A text of more than 32 KiB."
    return ""


def describe(groups: Groups, group_id: str, topics: TopicsImage) -> DescribedGroup:
    try:
        group = find_share_group(groups, group_id)
    except KafkaError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_described(member, topics) for member in group.members.values()],
    )


def _described(member: ShareGroupMember, topics: TopicsImage) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=list(member.metadata.subscribed),
        assignment=DescribedAssignment(
            [
                DescribedPartitions(topic_id, topics.names[topic_id], list(indexes))
                for topic_id, indexes in member.assigned.items()
                if topic_id in topics.names
            ]
        ),
    )
