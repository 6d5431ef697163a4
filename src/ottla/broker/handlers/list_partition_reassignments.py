"""ListPartitionReassignments (key 46), v0 (KIP-455).

Lists the partitions that are being reassigned; null topics means all of them. Any broker can answer
this.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.request_context import RequestContext
from ottla.cluster.image import PartitionRegistration, TopicImage
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    image = ctx.broker.image
    found: dict[str, list[OngoingPartitionReassignment]] = {}
    if request.topics is None:
        for topic in image.topics.values():
            found[topic.name] = _ongoing(topic.partitions)
    else:
        for requested in request.topics:
            known = image.topics.get(requested.name)
            if known is not None:
                found[requested.name] = _ongoing(_select(known, requested.partition_indexes))
    return ListPartitionReassignmentsResponse(
        topics=[
            OngoingTopicReassignment(name=name, partitions=ongoing)
            for name, ongoing in sorted(found.items())
            if ongoing
        ]
    )


def _select(topic: TopicImage, indexes: Iterable[int]) -> list[PartitionRegistration]:
    count = len(topic.partitions)
    return [topic.partitions[index] for index in indexes if 0 <= index < count]


def _ongoing(partitions: Iterable[PartitionRegistration]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=partition.index,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding),
            removing_replicas=list(partition.removing),
        )
        for partition in partitions
        if partition.reassigning
    ]
