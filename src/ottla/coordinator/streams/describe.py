"""StreamsGroupDescribe: a group with its topology, its members and their assignments."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import StreamsGroupMember
from ottla.coordinator.streams.tasks import NO_TASKS, StreamsTask, TaskRole, tasks_of
from ottla.coordinator.streams.topology import StreamsInternalTopic
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def describe_streams_group(group: StreamsGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    if group.topology is None:
        return None
    counts = {} if group.configured is None else group.configured.internal_counts
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                subtopology_id=subtopology.subtopology_id,
                source_topics=list(subtopology.source_topics),
                repartition_sink_topics=list(subtopology.repartition_sink_topics),
                state_changelog_topics=[
                    _topic(topic, counts.get(topic.name, topic.partition_count))
                    for topic in subtopology.state_changelog_topics
                ],
                repartition_source_topics=[
                    _topic(topic, counts.get(topic.name, topic.partition_count))
                    for topic in subtopology.repartition_source_topics
                ],
            )
            for subtopology in group.topology.subtopologies
        ],
    )


def _topic(topic: StreamsInternalTopic, partition_count: int) -> TopicInfo:
    configs = [KeyValue(key, value) for key, value in topic.configs]
    return TopicInfo(topic.name, partition_count, topic.replication_factor, configs)


def _member(group: StreamsGroup, member: StreamsGroupMember) -> Member:
    metadata = member.metadata
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if metadata.user_endpoint is None else Endpoint(*metadata.user_endpoint),
        client_tags=[KeyValue(key, value) for key, value in metadata.client_tags],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target.get(member.member_id, NO_TASKS)),
    )


def _assignment(tasks: Iterable[StreamsTask]) -> Assignment:
    listed = list(tasks)
    return Assignment(
        *(
            [TaskIds(*partitions_of) for partitions_of in tasks_of(role, listed).items()]
            for role in TaskRole
        )
    )
