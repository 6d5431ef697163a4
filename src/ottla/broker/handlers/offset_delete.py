"""OffsetDelete (key 47), v0 (KIP-496).

Deletes a group's committed offsets of some partitions, unless its members consume their topic.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    refused = [_remove_unknown(ctx, topic) for topic in request.topics]
    refused = [topic for topic in refused if topic.partitions]
    request.topics = [topic for topic in request.topics if topic.partitions]
    groups, answer = ctx.broker.groups, Promise[OffsetDeleteResponse]()
    outcome = groups.coordinator.offset_delete(request, token=answer, now_ms=ctx.now_ms)
    groups.carry_out(outcome, ctx.now_ms)
    return answer.then(lambda response: _merge(refused, response)).result()


def _remove_unknown(
    ctx: RequestContext, topic: OffsetDeleteRequestTopic
) -> OffsetDeleteResponseTopic:
    """Keep only existing partitions in a topic of the request."""
    known = ctx.broker.image.topics.get(topic.name)
    count = 0 if known is None else len(known.partitions)
    refused = OffsetDeleteResponseTopic(topic.name)
    accepted = []
    for partition in topic.partitions:
        if 0 <= partition.partition_index < count:
            accepted.append(partition)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.partitions.append(
                OffsetDeleteResponsePartition(partition.partition_index, code)
            )
    topic.partitions = accepted
    return refused


def _merge(
    refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse
) -> OffsetDeleteResponse:
    if response.error_code:
        return response
    by_name = {topic.name: topic for topic in response.topics}
    for topic in refused:
        if topic.name in by_name:
            by_name[topic.name].partitions.extend(topic.partitions)
        else:
            response.topics.append(topic)
    return response
