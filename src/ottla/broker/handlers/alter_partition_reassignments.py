"""AlterPartitionReassignments (key 45), v0 to v1 (KIP-455).

Starts, changes or (with null replicas) cancels the reassignment of partitions to other brokers. The
response is sent when the change is stored; the reassignment itself lasts until the new replicas
have caught up (see ListPartitionReassignments).

v1  the replication factor can be kept (KIP-860)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.forwarding import forward_to_controller
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import MetadataImage
from ottla.cluster.reassignments import TargetReplicas
from ottla.errors import KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    targets = _targets(request)

    def seen(image: MetadataImage, response: AlterPartitionReassignmentsResponse) -> bool:
        return all(
            _is_applied(image, topic.name, partition.partition_index, targets)
            for topic in response.responses
            for partition in topic.partitions
            if not partition.error_code
        )

    return forward_to_controller(
        ctx,
        request,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsResponse,
        here=_alter,
        seen=seen,
        refused=_refused,
    )


def _refused(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.message or None
    )


def _is_applied(
    image: MetadataImage, name: str, index: int, targets: dict[str, dict[int, TargetReplicas]]
) -> bool:
    topic = image.topics.get(name)
    if topic is None:
        return True
    target = targets[name][index]
    partition = topic.partitions[index]
    return not partition.reassigning if target is None else partition.target == tuple(target)


async def _alter(
    ctx: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    results = await ctx.broker.controller.reassign(
        _targets(request),
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, index), failure in results.items():
        topic = topics.setdefault(name, ReassignableTopicResponse(name=name))
        response = ReassignablePartitionResponse(partition_index=index)
        if failure is not None:
            response.error_code = failure.code
            response.error_message = failure.message or None
        topic.partitions.append(response)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=list(topics.values()),
    )


def _targets(request: AlterPartitionReassignmentsRequest) -> dict[str, dict[int, TargetReplicas]]:
    targets: dict[str, dict[int, TargetReplicas]] = {}
    for topic in request.topics:
        wanted = targets.setdefault(topic.name, {})
        wanted |= {partition.partition_index: partition.replicas for partition in topic.partitions}
    return targets
