"""Why a heartbeat of a streams group is invalid, in Kafka's words."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.coordinator.records import is_recordable
from ottla.coordinator.streams.configured import ConfiguredTopology
from ottla.coordinator.streams.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from ottla.coordinator.streams.tasks import StreamsTask, TaskRole, TaskSet
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Topology,
)


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """INVALID_REQUEST with the reason."""
    wrong = _unsupported(request) or _empty(request) or _misused(request)
    if not wrong and not all(map(is_recordable, _texts(request))):
        wrong = "A text of more than 32 KiB."
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)


def check_tasks(configured: ConfiguredTopology, owned: TaskSet | None) -> None:
    """INVALID_REQUEST if the member reports tasks that its topology does not have."""
    if not configured.is_ready:
        return
    for task in sorted(owned or ()):
        count = configured.task_counts.get(task.subtopology_id)
        if count is None:
            wrong = f"Subtopology {task.subtopology_id} does not exist in the topology."
        elif 0 <= task.partition < count:
            continue
        else:
            wrong = (
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid."
                f" Number of tasks for this subtopology: {count}"
            )
        raise KafkaError(ErrorCode.INVALID_REQUEST, wrong)


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> TaskSet | None:
    """The tasks that the member reports; None if they have not changed."""
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in lists:
        return None
    return frozenset(
        StreamsTask(role, tasks.subtopology_id, index)
        for role, listed in zip(TaskRole, lists, strict=True)
        for tasks in listed or ()
        for index in tasks.partitions
    )


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str:
    if request.instance_id is not None:
        return "Static membership is not yet supported."
    if request.warmup_tasks:
        return "WarmupTasks are not supported yet."
    subtopologies = [] if request.topology is None else request.topology.subtopologies
    if any(subtopology.source_topic_regex for subtopology in subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return ""


def _empty(request: StreamsGroupHeartbeatRequest) -> str:
    if not request.member_id:
        return "MemberId can't be empty."
    if not request.group_id:
        return "GroupId can't be empty."
    if request.rack_id == "":
        return "RackId can't be empty."
    return ""


def _misused(request: StreamsGroupHeartbeatRequest) -> str:
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        for word, listed in zip(("Active", "Standby", "Warmup"), tasks, strict=True):
            if listed is None or listed:
                return f"{word}Tasks must be empty when (re-)joining."
        if request.topology is None:
            return "Topology must be non-null when (re-)joining."
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        return "InstanceId can't be null."
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        epoch = request.member_epoch
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if None in tasks and any(listed is not None for listed in tasks):
        return "If one task-type is non-null, all must be non-null."
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return ""


def _texts(request: StreamsGroupHeartbeatRequest) -> Iterator[str]:
    """Everything that becomes part of a record as a string."""
    yield request.member_id
    yield request.rack_id or ""
    yield request.process_id or ""
    if request.user_endpoint is not None:
        yield request.user_endpoint.host
    for tag in request.client_tags or ():
        yield tag.key
        yield tag.value
    if request.topology is not None:
        yield from _texts_of_topology(request.topology)


def _texts_of_topology(topology: Topology) -> Iterator[str]:
    for subtopology in topology.subtopologies:
        yield subtopology.subtopology_id
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (
            *subtopology.state_changelog_topics,
            *subtopology.repartition_source_topics,
        ):
            yield topic.name
            for config in topic.topic_configs:
                yield config.key
                yield config.value
