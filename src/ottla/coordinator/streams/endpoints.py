"""The user endpoints of a group's members, where the state of partitions can be queried."""

from __future__ import annotations

from ottla.coordinator.group_type import TopicsImage
from ottla.coordinator.streams.group import StreamsGroup
from ottla.coordinator.streams.member import StreamsGroupMember
from ottla.coordinator.streams.tasks import TaskRole, tasks_of
from ottla.wire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def endpoint_partitions(group: StreamsGroup, topics: TopicsImage) -> list[EndpointToPartitions]:
    """For every member that has an endpoint (`application.server`)."""
    return [
        EndpointToPartitions(
            Endpoint(*member.metadata.user_endpoint),
            _partitions(group, member, TaskRole.ACTIVE, topics),
            _partitions(group, member, TaskRole.STANDBY, topics),
        )
        for member in group.members.values()
        if member.metadata.user_endpoint is not None
    ]


def _partitions(
    group: StreamsGroup, member: StreamsGroupMember, role: TaskRole, topics: TopicsImage
) -> list[TopicPartition]:
    """The partitions that the member's tasks read; a source may have fewer than there are tasks."""
    tasks = tasks_of(role, member.assigned)
    found = []
    for subtopology in () if group.topology is None else group.topology.subtopologies:
        indexes = tasks.get(subtopology.subtopology_id)
        for name in subtopology.sources() if indexes else ():
            view = topics.by_name.get(name)
            if view is not None:
                existing = [index for index in indexes or () if index < view.partition_count]
                found.append(TopicPartition(name, existing))
    return found
