"""ElectLeaders (key 43), v0 to v2 (KIP-183, KIP-460).

Gives leadership back to the preferred replicas, or lets one lead that is not in sync where nobody
else is left. No partitions named means all of them; those that need no election are then left out
of the response.

v1  unclean elections
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from ottla.broker.context import Context
from ottla.broker.forwarding import by_controller
from ottla.cluster.decisions_elections import Election
from ottla.cluster.image import Image
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

Place = tuple[str, int]


def handle(ctx: Context, request: ElectLeadersRequest) -> Awaitable[ElectLeadersResponse]:
    before = ctx.broker.image

    def seen(image: Image, response: ElectLeadersResponse) -> bool:
        return all(
            _epoch(image, result.topic, each.partition_id)
            != _epoch(before, result.topic, each.partition_id)
            for result in response.replica_election_results
            for each in result.partition_result
            if not each.error_code
        )

    return by_controller(
        ctx,
        request,
        ApiKey.ELECT_LEADERS,
        ElectLeadersResponse,
        here=_elect,
        seen=seen,
        refused=_refused,
    )


def _epoch(image: Image, name: str, index: int) -> int:
    topic = image.topics.get(name)
    return -1 if topic is None else topic.partitions[index].leader_epoch


async def _elect(ctx: Context, request: ElectLeadersRequest) -> ElectLeadersResponse:
    everything = request.topic_partitions is None
    places = list(dict.fromkeys(_places(ctx, request)))
    try:
        election = Election(request.election_type)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown election type.") from None
    results = await ctx.broker.controller.elect_leaders(places, election)
    if everything:
        results = {
            place: error
            for place, error in results.items()
            if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
        }
    return ElectLeadersResponse(replica_election_results=_grouped(results))


def _places(ctx: Context, request: ElectLeadersRequest) -> Iterable[Place]:
    if request.topic_partitions is None:
        for topic in ctx.broker.image.topics.values():
            yield from ((topic.name, each.index) for each in topic.partitions)
        return
    for asked in request.topic_partitions:
        yield from ((asked.topic, index) for index in asked.partitions)


def _refused(ctx: Context, request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """v0 has no code for the whole response, so each partition bears it too."""
    results = _grouped(dict.fromkeys(_places(ctx, request), error))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


def _grouped(results: dict[Place, KafkaError | None]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, index), error in results.items():
        topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
        result = PartitionResult(partition_id=index)
        if error is not None:
            result.error_code = error.code
            result.error_message = error.message or None
        topic.partition_result.append(result)
    return list(topics.values())
