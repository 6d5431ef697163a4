"""Share groups in the group coordinator: each request is handed to the shard of its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.result import CoordinatorResult, Token
from ottla.coordinator.share import heartbeat as requests
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_records import StatePartitions
from ottla.coordinator.share.heartbeat import ShareHeartbeat, find_share_group
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import Message
from ottla.wire.messages.share_group_describe import DescribedGroup
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.group_coordinator import GroupCoordinator


def heartbeat(
    coordinator: GroupCoordinator, beat: ShareHeartbeat, *, token: Token, now_ms: int
) -> CoordinatorResult:
    try:
        shard = coordinator.member_shard_of(beat.request.group_id)
    except KafkaError as error:
        response = ShareGroupHeartbeatResponse(error_code=error.code)
        return CoordinatorResult.of_reply(token, response)
    event = shard.new_event(now_ms)
    event.reply(token, requests.heartbeat(shard.groups, beat, event))
    return event.result


def missing_states(
    coordinator: GroupCoordinator, request: ShareGroupHeartbeatRequest
) -> tuple[int, Mapping[bytes, StatePartitions]]:
    """Which states this heartbeat needs first, and for which epoch."""
    try:
        shard = coordinator.member_shard_of(request.group_id)
    except KafkaError:
        return 0, {}
    return requests.missing_states(shard.groups, request, coordinator.topics)


def describe(coordinator: GroupCoordinator, group_ids: Iterable[str]) -> list[DescribedGroup]:
    described = []
    for group_id in group_ids:
        try:
            shard = coordinator.member_shard_of(group_id)
        except KafkaError as error:
            described.append(DescribedGroup(error_code=error.code, group_id=group_id))
        else:
            described.append(requests.describe(shard.groups, group_id, coordinator.topics))
    return described


def share_group(coordinator: GroupCoordinator, group_id: str) -> ShareGroup:
    """The group, or the error for the client."""
    return find_share_group(coordinator.member_shard_of(group_id).groups, group_id)


def empty_share_group(coordinator: GroupCoordinator, group_id: str) -> ShareGroup:
    """A group without members, which an administrator may change."""
    group = share_group(coordinator, group_id)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group


def alterable_share_group(coordinator: GroupCoordinator, group_id: str) -> ShareGroup:
    """A group whose start offsets can be set: an empty one, or a new one that `change` adds."""
    if group_id not in coordinator.member_shard_of(group_id).groups:
        return ShareGroup(group_id)
    return empty_share_group(coordinator, group_id)


def change(
    coordinator: GroupCoordinator,
    group: ShareGroup,
    do: Callable[[GroupEvent], None],
    *,
    answer: tuple[Token, Message],
    now_ms: int,
) -> CoordinatorResult:
    """A change that an administrator makes to a group."""
    shard = coordinator.member_shard_of(group.group_id)
    event = shard.new_event(now_ms)
    if group.group_id not in shard.groups:
        requests.add(shard.groups, group, event)
    do(event)
    event.reply(*answer)
    return event.result
