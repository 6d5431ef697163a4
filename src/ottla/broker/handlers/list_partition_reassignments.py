"""ListPartitionReassignments (key 46), v0 (KIP-455).

The partitions that are on their way to other brokers; null topics means all of them. Any broker
knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.context import Context
from ottla.cluster.image import Partition, Topic
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    ctx: Context, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = ctx.broker.image
    found: dict[str, list[OngoingPartitionReassignment]] = {}
    if request.topics is None:
        for topic in image.topics.values():
            found[topic.name] = _under_way(topic.partitions)
    else:
        for asked in request.topics:
            known = image.topics.get(asked.name)
            if known is not None:
                found[asked.name] = _under_way(_chosen(known, asked.partition_indexes))
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=moving)
            for name, moving in sorted(found.items())
            if moving
        ]
    )


def _chosen(topic: Topic, indexes: Iterable[int]) -> list[Partition]:
    count = len(topic.partitions)
    return [topic.partitions[index] for index in indexes if 0 <= index < count]


def _under_way(partitions: Iterable[Partition]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=each.index,
            replicas=list(each.replicas),
            adding_replicas=list(each.adding),
            removing_replicas=list(each.removing),
        )
        for each in partitions
        if each.reassigning
    ]
