"""What members of share groups ask of the group coordinator, and what it answers (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.coordinator.keys import is_recordable
from ottla.coordinator.kinds import AnyGroup, Topics
from ottla.coordinator.outcome import Turn
from ottla.coordinator.share.group import ASSIGNOR, ShareGroup, ShareGroupConfig, ShareMember
from ottla.coordinator.share.keys import (
    Partitions,
    StatePartitions,
    StoredMember,
    read_share_key,
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

JOINS: Final = 0
LEAVES: Final = -1

Groups = dict[str, AnyGroup]


class Beat(NamedTuple):
    """A heartbeat with its surroundings; `initialized` are partitions whose state was just made."""

    request: ShareGroupHeartbeatRequest
    client_id: str
    client_host: str
    config: ShareGroupConfig
    initialized: Mapping[bytes, StatePartitions]


def find_share_group(groups: Groups, group_id: str) -> ShareGroup:
    group = groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        message = f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return group


def restore_share_group(groups: Groups, key: bytes, value: bytes) -> bool:
    """A record of a partition that is loaded; False if it is not of a share group."""
    found = read_share_key(key)
    if found is None:
        return False
    kind, group_id, member_id = found
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        group = groups[group_id] = ShareGroup(group_id)
    group.restore(kind, member_id, value)
    return True


def forget_shared_topic(groups: Groups, topic_id: bytes, turn: Turn) -> None:
    """The topic was deleted."""
    for group in groups.values():
        if isinstance(group, ShareGroup):
            group.forget([topic_id], turn)


def missing_states(
    groups: Groups, request: ShareGroupHeartbeatRequest, topics: Topics
) -> tuple[int, Mapping[bytes, StatePartitions]]:
    """Partitions that this heartbeat needs and that have no state yet, and the epoch for it."""
    group = groups.get(request.group_id)
    if group is None:
        group = ShareGroup(request.group_id)
    if not isinstance(group, ShareGroup) or request.member_epoch < 0 or _wrong(request):
        return 0, {}
    return group.epoch, group.uninitialized(request.subscribed_topic_names or (), topics)


def heartbeat(groups: Groups, beat: Beat, turn: Turn) -> ShareGroupHeartbeatResponse:
    try:
        return _heartbeat(groups, beat, turn)
    except KafkaError as error:
        return ShareGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )


def _heartbeat(groups: Groups, beat: Beat, turn: Turn) -> ShareGroupHeartbeatResponse:
    request = beat.request
    wrong = _wrong(request)
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    if request.member_epoch == JOINS and request.group_id not in groups:
        group = _new_group(groups, request.group_id, turn)
    else:
        group = find_share_group(groups, request.group_id)
    if request.member_epoch == LEAVES:
        group.check_epoch(request.member_id, JOINS)
        group.remove(request.member_id, turn)
        return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVES)
    return _beat(group, beat, turn)


def _beat(group: ShareGroup, beat: Beat, turn: Turn) -> ShareGroupHeartbeatResponse:
    request, config = beat.request, beat.config
    known = group.members.get(request.member_id)
    if known is None and request.member_epoch == JOINS:
        if len(group.members) >= config.max_size:
            message = f"The share group has reached its maximum capacity of {config.max_size}."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    else:
        group.check_epoch(request.member_id, request.member_epoch)
    group.configure(config, turn)
    before: Partitions | None = None
    if known is not None and request.member_epoch == known.epoch:
        before = known.assigned  # else it joins, or our last answer got lost
    member = group.heartbeat(
        request.member_id, _about(known, beat), initialized=beat.initialized, turn=turn
    )
    assignment = None
    if member.assigned != before:
        assignment = Assignment(
            [TopicPartitions(topic_id, list(each)) for topic_id, each in member.assigned.items()]
        )
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval=config.heartbeat_interval_ms,
        assignment=assignment,
    )


def _about(known: ShareMember | None, beat: Beat) -> StoredMember:
    """What is not said in a heartbeat has not changed."""
    request = beat.request
    rack_id, subscribed = request.rack_id, request.subscribed_topic_names
    before = StoredMember(None, "", "", ()) if known is None else known.about
    return StoredMember(
        before.rack_id if rack_id is None else rack_id,
        beat.client_id,
        beat.client_host,
        before.subscribed if subscribed is None else tuple(sorted(set(subscribed))),
    )


def _new_group(groups: Groups, group_id: str, turn: Turn) -> ShareGroup:
    group = ShareGroup(group_id)
    add(groups, group, turn)
    return group


def add(groups: Groups, group: ShareGroup, turn: Turn) -> None:
    """Make a new group known; it is gone again if its first records can't be written."""
    groups[group.group_id] = group
    turn.undo(lambda undo, code: _drop(groups, group, undo, code))


def _drop(groups: Groups, group: ShareGroup, turn: Turn, code: ErrorCode) -> None:
    group.stop(turn, code)
    del groups[group.group_id]


def _wrong(request: ShareGroupHeartbeatRequest) -> str:
    """Why a heartbeat makes no sense; empty if it does."""
    names = request.subscribed_topic_names
    if not request.group_id:
        return "GroupId can't be empty."
    if not request.member_id:
        return "MemberId can't be empty."
    if request.rack_id == "":
        return "RackId can't be empty."
    if request.member_epoch == JOINS and not names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVES:
        return "MemberEpoch is invalid."
    texts = [request.member_id, request.rack_id or "", *(names or ())]
    if not all(map(is_recordable, texts)):
        return "A text of more than 32 KiB."
    return ""


def describe(groups: Groups, group_id: str, topics: Topics) -> DescribedGroup:
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


def _described(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.about.rack_id,
        member_epoch=member.epoch,
        client_id=member.about.client_id,
        client_host=member.about.client_host,
        subscribed_topic_names=list(member.about.subscribed),
        assignment=DescribedAssignment(
            [
                DescribedPartitions(topic_id, topics.names[topic_id], list(each))
                for topic_id, each in member.assigned.items()
                if topic_id in topics.names
            ]
        ),
    )
