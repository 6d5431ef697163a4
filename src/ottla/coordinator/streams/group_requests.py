"""Streams groups in the group coordinator: each request is handed to the shard of its group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.result import CoordinatorResult, Token
from ottla.coordinator.streams.configured import configure
from ottla.coordinator.streams.describe import describe_streams_group
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.heartbeat import (
    Groups,
    StreamsHeartbeat,
    find_streams_group,
    streams_heartbeat,
)
from ottla.coordinator.streams.member import JOIN_EPOCH
from ottla.coordinator.streams.records import read_streams_group_key
from ottla.coordinator.streams.request_checks import check_request
from ottla.coordinator.streams.topology import StreamsInternalTopic, declared
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.group_coordinator import GroupCoordinator


def heartbeat(
    coordinator: GroupCoordinator, beat: StreamsHeartbeat, *, token: Token, now_ms: int
) -> CoordinatorResult:
    try:
        if not coordinator.config.streams.enabled:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        check_request(beat.request)
        shard = coordinator.member_shard_of(beat.request.group_id)
    except KafkaError as error:
        response = StreamsGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )
        return CoordinatorResult.of_reply(token, response)
    event = shard.new_event(now_ms)
    event.reply(token, streams_heartbeat(beat, event))
    return event.result


def missing_topics(
    coordinator: GroupCoordinator, request: StreamsGroupHeartbeatRequest
) -> tuple[StreamsInternalTopic, ...]:
    """Internal topics that have to be created before this member's group can have tasks."""
    try:
        if not coordinator.config.streams.enabled or request.member_epoch < JOIN_EPOCH:
            return ()
        check_request(request)
        group = coordinator.member_shard_of(request.group_id).groups.get(request.group_id)
        if isinstance(group, StreamsGroup) and group.topology is not None:
            if group.is_configured_for(coordinator.topics):
                return ()  # as nearly always
            return configure(group.topology, coordinator.topics).to_create
        if request.topology is None:
            return ()
        return configure(declared(request.topology), coordinator.topics).to_create
    except KafkaError:
        return ()  # the response to the heartbeat has the error


def describe(coordinator: GroupCoordinator, group_ids: Iterable[str]) -> list[DescribedGroup]:
    described = []
    for group_id in group_ids:
        try:
            groups = coordinator.member_shard_of(group_id).groups
            described.append(describe_streams_group(find_streams_group(groups, group_id)))
        except KafkaError as error:
            described.append(
                DescribedGroup(
                    error_code=error.code, error_message=error.message or None, group_id=group_id
                )
            )
    return described


def restore_streams_group(groups: Groups, key: bytes, value: bytes) -> bool:
    """A record of a partition that is loaded; False if it is not of a streams group."""
    found = read_streams_group_key(key)
    if found is None:
        return False
    kind, group_id, member_id = found
    group = groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        group = groups[group_id] = StreamsGroup(group_id)
    group.restore(kind, member_id, value)
    return True
