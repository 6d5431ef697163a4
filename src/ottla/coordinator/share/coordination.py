"""Share groups in the group coordinator: from a request to the shard that holds its group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.outcome import Outcome, Token, Turn
from ottla.coordinator.share import requests
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.keys import StatePartitions
from ottla.coordinator.share.requests import Beat, find_share_group
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_describe import DescribedGroup
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.coordinator.coordinator import GroupCoordinator


def heartbeat(coordinator: GroupCoordinator, beat: Beat, *, token: Token, now_ms: int) -> Outcome:
    try:
        shard = coordinator.member_shard_of(beat.request.group_id)
    except KafkaError as error:
        outcome = Outcome()
        outcome.replies.append((token, ShareGroupHeartbeatResponse(error_code=error.code)))
        return outcome
    turn = shard.turn(now_ms)
    turn.reply(token, requests.heartbeat(shard.groups, beat, turn))
    return turn.outcome


def missing_states(
    coordinator: GroupCoordinator, request: ShareGroupHeartbeatRequest
) -> tuple[int, Mapping[bytes, StatePartitions]]:
    """What has to be initialized before this heartbeat can be answered, and for which epoch."""
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
    """The group, or the error that a client is told."""
    return find_share_group(coordinator.member_shard_of(group_id).groups, group_id)


def empty_share_group(coordinator: GroupCoordinator, group_id: str) -> ShareGroup:
    """One that can be changed from outside: nobody reads from it now."""
    group = share_group(coordinator, group_id)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group


def alterable_share_group(coordinator: GroupCoordinator, group_id: str) -> ShareGroup:
    """One whose start can be set: an empty one, or a new one, which `change` makes known."""
    if group_id not in coordinator.member_shard_of(group_id).groups:
        return ShareGroup(group_id)
    return empty_share_group(coordinator, group_id)


def change(
    coordinator: GroupCoordinator,
    group: ShareGroup,
    do: Callable[[Turn], None],
    *,
    answer: tuple[Token, Message],
    now_ms: int,
) -> Outcome:
    """Something that an administrator wants of a group."""
    shard = coordinator.member_shard_of(group.group_id)
    turn = shard.turn(now_ms)
    if group.group_id not in shard.groups:
        requests.add(shard.groups, group, turn)
    do(turn)
    turn.reply(*answer)
    return turn.outcome
