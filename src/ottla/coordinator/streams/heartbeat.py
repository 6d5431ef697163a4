"""StreamsGroupHeartbeat: members join, stay and leave by the same request (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import STREAMS, Group, find_group
from ottla.coordinator.streams.configured import (
    ConfiguredTopology,
    StreamsStatus,
    TopicProblem,
)
from ottla.coordinator.streams.endpoints import endpoint_partitions
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import (
    JOIN_EPOCH,
    StreamsGroupMember,
    StreamsGroupMemberMetadata,
)
from ottla.coordinator.streams.request_checks import check_request, check_tasks, owned_tasks
from ottla.coordinator.streams.tasks import NO_TASKS, TaskRole, TaskSet, tasks_of
from ottla.coordinator.streams.topology import StreamsTopology, declared
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

Groups = dict[str, Group]


class StreamsHeartbeat(NamedTuple):
    """A heartbeat and its client; `failures` are topics that could not be created."""

    request: StreamsGroupHeartbeatRequest
    client_id: str
    client_host: str
    failures: Mapping[str, str]


def streams_heartbeat(beat: StreamsHeartbeat, event: GroupEvent) -> StreamsGroupHeartbeatResponse:
    """A refused request leaves no trace, even if it would have created the group."""
    try:
        check_request(beat.request)
        if beat.request.member_epoch < JOIN_EPOCH:
            return _leave(beat.request, event)
        return _beat(_group(beat.request, event), beat, event)
    except KafkaError as error:
        event.take_back(error.code)
        return StreamsGroupHeartbeatResponse(
            error_code=error.code, error_message=error.message or None
        )


def find_streams_group(groups: Groups, group_id: str, word: str = "Group") -> StreamsGroup:
    return find_group(groups, group_id, StreamsGroup, STREAMS, word=word)


def _group(request: StreamsGroupHeartbeatRequest, event: GroupEvent) -> StreamsGroup:
    """A join creates the group, also in place of a classic group without members.

    Offsets stay: an application moves from the classic protocol to this one while it is down.
    """
    group = event.groups.get(request.group_id)
    empty_classic = isinstance(group, ClassicGroup) and group.is_empty
    if request.member_epoch > JOIN_EPOCH or (group is not None and not empty_classic):
        return find_streams_group(event.groups, request.group_id, "Streams group")
    new_group = StreamsGroup(request.group_id)
    if group is not None:
        for record in group.tombstones():
            event.record(*record)
    event.put_group(new_group)
    return new_group


def _leave(
    request: StreamsGroupHeartbeatRequest, event: GroupEvent
) -> StreamsGroupHeartbeatResponse:
    group = find_streams_group(event.groups, request.group_id)
    if request.member_id not in group.members:
        raise _unknown(group, request.member_id)
    if request.shutdown_application:
        group.shutdown_member_id = group.shutdown_member_id or request.member_id
    group.remove(request.member_id, event)
    return StreamsGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, status=[]
    )


def _beat(
    group: StreamsGroup, beat: StreamsHeartbeat, event: GroupEvent
) -> StreamsGroupHeartbeatResponse:
    request = beat.request
    known, owned = _check_member(group, request, event), owned_tasks(request)
    metadata = _metadata_of(known, beat)
    statuses: list[TopicProblem] = []
    config = event.config.streams.of_group(group.group_id)
    joins = request.member_epoch == JOIN_EPOCH
    if (
        known is None
        or joins
        or known.metadata != metadata
        or not group.is_settled(known, config, event)
    ):
        _change(group, beat, metadata, owned, statuses, event)
    elif group.configured is not None:
        check_tasks(group.configured, owned)
    group.prolong(request.member_id, event)
    member = group.members[request.member_id]
    if request.shutdown_application:
        group.shutdown_member_id = group.shutdown_member_id or request.member_id
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval=config.heartbeat_interval_ms,
    )
    # A member that sends an older epoch, or other tasks than it was sent, has missed a response.
    up_to_date = known is not None and not joins and request.member_epoch == known.epoch
    up_to_date = up_to_date and (owned is None or owned == member.assigned.keys())
    if known is None or not up_to_date or member.assigned != known.assigned:
        _send_tasks(group, member, response)
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoint_partitions(group, event.topics)
    response.endpoint_information_epoch = group.endpoint_epoch
    response.status = _statuses(group, member, statuses, beat.failures)
    return response


def _check_member(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, event: GroupEvent
) -> StreamsGroupMember | None:
    known = group.members.get(request.member_id)
    if known is None:
        if request.member_epoch != JOIN_EPOCH:
            raise _unknown(group, request.member_id)
        most = event.config.streams.max_size
        if len(group.members) >= most:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {most} members.",
            )
    elif request.member_epoch != JOIN_EPOCH:
        _check_epoch(known, request)
    return known


def _check_epoch(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> None:
    """A member that has missed a response may continue if it only has tasks of its assignment."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    owned = owned_tasks(request)
    lost_answer = epoch < member.epoch and epoch == member.previous_epoch
    if lost_answer and owned is not None and owned <= member.assigned.keys():
        return
    word = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {word} member epoch ({epoch}) than the one known by the"
        f" group coordinator ({member.epoch}). The member must abandon all its partitions and"
        " rejoin.",
    )


def _metadata_of(
    member: StreamsGroupMember | None, beat: StreamsHeartbeat
) -> StreamsGroupMemberMetadata:
    """Fields that a heartbeat leaves out have not changed."""
    request = beat.request
    metadata = StreamsGroupMemberMetadata() if member is None else member.metadata
    metadata = metadata._replace(client_id=beat.client_id, client_host=beat.client_host)
    if request.rack_id is not None:
        metadata = metadata._replace(rack_id=request.rack_id)
    if request.rebalance_timeout >= 0:
        metadata = metadata._replace(rebalance_timeout_ms=request.rebalance_timeout)
    if request.topology is not None:
        metadata = metadata._replace(topology_epoch=request.topology.epoch)
    if request.process_id is not None:
        metadata = metadata._replace(process_id=request.process_id)
    if request.user_endpoint is not None:
        endpoint = request.user_endpoint
        metadata = metadata._replace(user_endpoint=(endpoint.host, endpoint.port))
    if request.client_tags is not None:
        tags = tuple(sorted((tag.key, tag.value) for tag in request.client_tags))
        metadata = metadata._replace(client_tags=tags)
    return metadata


def _change(
    group: StreamsGroup,
    beat: StreamsHeartbeat,
    metadata: StreamsGroupMemberMetadata,
    owned: TaskSet | None,
    statuses: list[TopicProblem],
    event: GroupEvent,
) -> None:
    request, config = beat.request, event.config.streams.of_group(group.group_id)
    first = group.is_empty
    group.undo_to_now(event)
    news = group.put_member(request.member_id, metadata, event)
    if request.topology is not None:
        _take_topology(group, declared(request.topology), event)
    check_tasks(group.refresh(event, config, bump=news), owned)
    if first:
        group.wait_for_others(config, event)
    target = NO_TASKS
    if group.waits_for_others(event):
        detail = "Assignment delayed due to the configured initial rebalance delay."
        statuses.append(TopicProblem(StreamsStatus.ASSIGNMENT_DELAYED, detail))
    else:
        if not group.assign(config, event):
            detail = "Assignment delayed due to the configured assignment interval."
            statuses.append(TopicProblem(StreamsStatus.ASSIGNMENT_DELAYED, detail))
        target = group.target.get(request.member_id, NO_TASKS)
    group.advance(request.member_id, target, owned, event)


def _take_topology(group: StreamsGroup, topology: StreamsTopology, event: GroupEvent) -> None:
    if group.topology is None:
        group.put_topology(topology, event)
    elif topology.epoch >= group.topology.epoch and topology != group.topology:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _send_tasks(
    group: StreamsGroup, member: StreamsGroupMember, response: StreamsGroupHeartbeatResponse
) -> None:
    def listed(role: TaskRole) -> list[TaskIds]:
        return [
            TaskIds(*partitions_of) for partitions_of in tasks_of(role, member.assigned).items()
        ]

    response.active_tasks = listed(TaskRole.ACTIVE)
    response.standby_tasks = listed(TaskRole.STANDBY)
    response.warmup_tasks = listed(TaskRole.WARMUP)
    if member.metadata.user_endpoint is not None:
        group.endpoint_epoch += 1


def _statuses(
    group: StreamsGroup,
    member: StreamsGroupMember,
    delayed: list[TopicProblem],
    failures: Mapping[str, str],
) -> list[Status]:
    found: list[Status] = []
    topology, configured = group.topology, group.configured
    if topology is not None and member.metadata.topology_epoch < topology.epoch:
        detail = (
            f"The member's topology epoch {member.metadata.topology_epoch} is behind the group's"
            f" topology epoch {topology.epoch}."
        )
        found.append(Status(StreamsStatus.STALE_TOPOLOGY, detail))
    found += [Status(*problem) for problem in delayed]
    if configured is not None and configured.problem is not None:
        found.append(_problem(configured, configured.problem, failures))
    if group.shutdown_member_id is not None:
        detail = (
            f"Streams group member {group.shutdown_member_id} encountered a fatal error and"
            " requested a shutdown for the entire application."
        )
        found.append(Status(StreamsStatus.SHUTDOWN_APPLICATION, detail))
    return found


def _problem(
    configured: ConfiguredTopology, problem: TopicProblem, failures: Mapping[str, str]
) -> Status:
    failed = [
        f"{topic.name} ({failures[topic.name]})"
        for topic in configured.to_create
        if topic.name in failures
    ]
    detail = (
        f"{problem.detail}; Creation failed: {', '.join(failed)}." if failed else problem.detail
    )
    return Status(problem.status, detail)


def _unknown(group: StreamsGroup, member_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )
