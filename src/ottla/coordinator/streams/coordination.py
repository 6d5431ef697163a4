"""Streams groups in the group coordinator: from a request to the shard that holds its group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.outcome import Outcome, Token
from ottla.coordinator.streams.configured import configure
from ottla.coordinator.streams.describing import described_streams
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.heartbeat import (
    Groups,
    StreamsBeat,
    find_streams_group,
    streams_heartbeat,
)
from ottla.coordinator.streams.keys import read_streams_key
from ottla.coordinator.streams.member import JOINS
from ottla.coordinator.streams.request_checks import check_request
from ottla.coordinator.streams.topology import StreamsInternalTopic, declared
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_describe import DescribedGroup
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.coordinator import GroupCoordinator


def heartbeat(
    coordinator: GroupCoordinator, beat: StreamsBeat, *, token: Token, now_ms: int
) -> Outcome:
    try:
        if not coordinator.config.streams.enabled:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        check_request(beat.request)
        shard = coordinator.member_shard_of(beat.request.group_id)
    except KafkaError as error:
        outcome = Outcome()
        response = StreamsGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )
        outcome.replies.append((token, response))
        return outcome
    turn = shard.turn(now_ms)
    turn.reply(token, streams_heartbeat(beat, turn))
    return turn.outcome


def missing_topics(
    coordinator: GroupCoordinator, request: StreamsGroupHeartbeatRequest
) -> tuple[StreamsInternalTopic, ...]:
    """Internal topics that have to be created before this member's group can have tasks."""
    try:
        if not coordinator.config.streams.enabled or request.member_epoch < JOINS:
            return ()
        check_request(request)
        group = coordinator.member_shard_of(request.group_id).groups.get(request.group_id)
        if isinstance(group, StreamsGroup) and group.topology is not None:
            if group.is_configured_for(coordinator.topics):
                return ()  # as it nearly always is
            return configure(group.topology, coordinator.topics).to_create
        if request.topology is None:
            return ()
        return configure(declared(request.topology), coordinator.topics).to_create
    except KafkaError:
        return ()  # the heartbeat is answered with it


def describe(coordinator: GroupCoordinator, group_ids: Iterable[str]) -> list[DescribedGroup]:
    described = []
    for group_id in group_ids:
        try:
            groups = coordinator.member_shard_of(group_id).groups
            described.append(described_streams(find_streams_group(groups, group_id)))
        except KafkaError as error:
            described.append(
                DescribedGroup(
                    error_code=error.code, error_message=error.message or None, group_id=group_id
                )
            )
    return described


def restore_streams_group(groups: Groups, key: bytes, value: bytes) -> bool:
    """A record of a partition that is loaded; False if it is not of a streams group."""
    found = read_streams_key(key)
    if found is None:
        return False
    kind, group_id, member_id = found
    group = groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        group = groups[group_id] = StreamsGroup(group_id)
    group.restore(kind, member_id, value)
    return True
