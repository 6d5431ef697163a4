"""AlterPartitionReassignments (key 45), v0 to v1 (KIP-455).

Begins, changes or (with null replicas) cancels the move of partitions to other brokers. The answer
comes when that is decided; the move itself takes as long as the new replicas need to catch up, see
ListPartitionReassignments.

v1  the replication factor can be kept (KIP-860)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.forwarding import by_controller
from ottla.cluster.decisions_reassignment import Target
from ottla.cluster.image import Image
from ottla.errors import KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    ctx: Context, request: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    targets = _targets(request)

    def seen(image: Image, response: AlterPartitionReassignmentsResponse) -> bool:
        return all(
            _is_under_way(image, topic.name, each.partition_index, targets)
            for topic in response.responses
            for each in topic.partitions
            if not each.error_code
        )

    return by_controller(
        ctx,
        request,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        AlterPartitionReassignmentsResponse,
        here=_alter,
        seen=seen,
        refused=_refused,
    )


def _refused(
    ctx: Context, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.message or None
    )


def _is_under_way(
    image: Image, name: str, index: int, targets: dict[str, dict[int, Target]]
) -> bool:
    topic = image.topics.get(name)
    if topic is None:
        return True
    target = targets[name][index]
    partition = topic.partitions[index]
    return not partition.reassigning if target is None else partition.target == tuple(target)


async def _alter(
    ctx: Context, request: AlterPartitionReassignmentsRequest
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


def _targets(request: AlterPartitionReassignmentsRequest) -> dict[str, dict[int, Target]]:
    targets: dict[str, dict[int, Target]] = {}
    for topic in request.topics:
        wanted = targets.setdefault(topic.name, {})
        wanted |= {each.partition_index: each.replicas for each in topic.partitions}
    return targets
