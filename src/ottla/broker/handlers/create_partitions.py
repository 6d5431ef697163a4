"""CreatePartitions (key 37), v0 to v3.

Adds partitions to topics. The new partitions have leaders and are visible when the response is
sent. From then on producers send keyed records to other partitions than before.

v3  throttling quota (KIP-599)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Final

from ottla.broker.forwarding import forward_to_controller
from ottla.broker.quota_charges import MutationQuotaCharge
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import MetadataImage
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

STRICT_FROM: Final = 3


def handle(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    counts = {topic.name: topic.count for topic in request.topics}

    def seen(image: MetadataImage, response: CreatePartitionsResponse) -> bool:
        done = [result.name for result in response.results if not result.error_code]
        return request.validate_only or all(
            name not in image.topics or len(image.topics[name].partitions) >= counts[name]
            for name in done
        )

    return forward_to_controller(
        ctx,
        request,
        ApiKey.CREATE_PARTITIONS,
        CreatePartitionsResponse,
        here=_create,
        seen=seen,
        refused=_refused,
    )


def _refused(
    ctx: RequestContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(results=[_result(name, error) for name in names])


async def _create(
    ctx: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    results: dict[str, KafkaError | None] = {
        name: duplicate for name, count in times.items() if count > 1
    }
    counts: dict[str, tuple[int, Sequence[Sequence[int]] | None]] = {}
    for topic in request.topics:
        if topic.name not in results:
            replicas = None
            if topic.assignments is not None:
                replicas = [assignment.broker_ids for assignment in topic.assignments]
            counts[topic.name] = (topic.count, replicas)
    charge = MutationQuotaCharge(ctx, strict_from=STRICT_FROM)
    results |= await ctx.broker.controller.create_partitions(
        counts, validate_only=request.validate_only, charge=charge
    )
    await ctx.broker.caught_up()
    return CreatePartitionsResponse(
        throttle_time=charge.throttle_ms,
        results=[_result(name, results[name]) for name in times],
    )


def _result(name: str, failure: KafkaError | None) -> CreatePartitionsTopicResult:
    if failure is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(
        name=name, error_code=failure.code, error_message=failure.message or None
    )
