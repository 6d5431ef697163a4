"""ElectLeaders (key 43), v0 to v2 (KIP-183, KIP-460).

Elects the preferred replicas, or a replica outside of the ISR where no member of the ISR is alive
(unclean). No partitions named means all of them; those that need no election are then left out of
the response.

v1  unclean elections
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.broker.forwarding import forward_to_controller
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import MetadataImage
from ottla.cluster.leader_election import LeaderElectionType
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TopicPartition = tuple[str, int]


def handle(ctx: RequestContext, request: ElectLeadersRequest) -> Awaitable[ElectLeadersResponse]:
    before = ctx.broker.image

    def seen(image: MetadataImage, response: ElectLeadersResponse) -> bool:
        return all(
            _epoch(image, result.topic, partition.partition_id)
            != _epoch(before, result.topic, partition.partition_id)
            for result in response.replica_election_results
            for partition in result.partition_result
            if not partition.error_code
        )

    return forward_to_controller(
        ctx,
        request,
        ApiKey.ELECT_LEADERS,
        ElectLeadersResponse,
        here=_elect,
        seen=seen,
        refused=_refused,
    )


def _epoch(image: MetadataImage, name: str, index: int) -> int:
    topic = image.topics.get(name)
    return -1 if topic is None else topic.partitions[index].leader_epoch


async def _elect(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    everything = request.topic_partitions is None
    partitions = list(dict.fromkeys(_partitions(ctx, request)))
    try:
        election = LeaderElectionType(request.election_type)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown election type.") from None
    results = await ctx.broker.controller.elect_leaders(partitions, election)
    if everything:
        results = {
            partition: error
            for partition, error in results.items()
            if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
    return ElectLeadersResponse(replica_election_results=_grouped(results))


def _partitions(ctx: RequestContext, request: ElectLeadersRequest) -> Iterable[TopicPartition]:
    if request.topic_partitions is None:
        for topic in ctx.broker.image.topics.values():
            yield from ((topic.name, partition.index) for partition in topic.partitions)
        return
    for requested in request.topic_partitions:
        yield from ((requested.topic, index) for index in requested.partitions)


def _refused(
    ctx: RequestContext, request: ElectLeadersRequest, error: KafkaError
) -> ElectLeadersResponse:
    """Each partition gets the error too, because v0 has no error code for the whole response."""
    results = _grouped(dict.fromkeys(_partitions(ctx, request), error))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


def _grouped(results: dict[TopicPartition, KafkaError | None]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, index), error in results.items():
        topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
        result = PartitionResult(partition_id=index)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message or None
        topic.partition_result.append(result)
    return list(topics.values())
