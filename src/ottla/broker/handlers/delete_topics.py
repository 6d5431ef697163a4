"""DeleteTopics (key 20), v1 to v6.

A deleted topic is gone for every client when the response is sent; its files are removed a
little later (file.delete.delay.ms).

v3  TOPIC_DELETION_DISABLED    v5  error messages, throttling quota (KIP-599)
v6  topics by id (KIP-516)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable

from ottla.broker.forwarding import forward_to_controller
from ottla.broker.quota_charges import MutationQuotaCharge
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import MetadataImage
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_ID_FROM = 6
DISABLED_CODE_FROM = 3
STRICT_FROM = 5


def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> Awaitable[DeleteTopicsResponse]:
    known = ctx.broker.image.topics
    requested = _requested(ctx, request)
    names = [topic.name for topic in requested if topic.name is not None and topic.name in known]
    topic_ids = {*(topic.topic_id for topic in requested), *(known[name].id for name in names)}

    def seen(image: MetadataImage, response: DeleteTopicsResponse) -> bool:
        refused = {
            topic.id
            for result in response.responses
            if result.error_code and (topic := image.topics.get(result.name or "")) is not None
        }
        return image.names_by_id.keys().isdisjoint(topic_ids - refused)

    return forward_to_controller(
        ctx,
        request,
        ApiKey.DELETE_TOPICS,
        DeleteTopicsResponse,
        here=_delete,
        seen=seen,
        refused=_refused,
    )


def _requested(ctx: RequestContext, request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    if ctx.version < BY_ID_FROM:
        return [DeleteTopicState(name=name) for name in request.topic_names]
    return request.topics


def _refused(
    ctx: RequestContext, request: DeleteTopicsRequest, error: KafkaError
) -> DeleteTopicsResponse:
    results = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        for topic in _requested(ctx, request)
    ]
    for result in results:
        _refuse(result, error)
    return DeleteTopicsResponse(responses=results)


async def _delete(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    times = Counter((topic.name, topic.topic_id) for topic in _requested(ctx, request))
    results: list[DeletableTopicResult] = []
    found: dict[str, DeletableTopicResult] = {}
    for name, topic_id in times:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        results.append(result)
        try:
            known = _find(ctx, name, topic_id, times[name, topic_id])
            if known in found:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            found[known] = result
        except KafkaError as error:
            _refuse(result, error)
    charge = MutationQuotaCharge(ctx, strict_from=STRICT_FROM)
    await _delete_found(ctx, found, charge)
    return DeleteTopicsResponse(throttle_time=charge.throttle_ms, responses=results)


async def _delete_found(
    ctx: RequestContext, found: dict[str, DeletableTopicResult], charge: MutationQuotaCharge
) -> None:
    topics = ctx.broker.image.topics
    for name, result in found.items():
        result.name = name
        result.topic_id = topics[name].id
    outcomes = await ctx.broker.controller.delete_topics(found, charge=charge)
    for name, failure in outcomes.items():
        if failure is not None:
            _refuse(found[name], failure)


def _find(ctx: RequestContext, name: str | None, topic_id: bytes, times: int) -> str:
    """The name of the topic with this name or id; KafkaError if it cannot be deleted."""
    if not ctx.broker.config.delete_topic_enable:
        if ctx.version < DISABLED_CODE_FROM:
            message = "This version does not support topic deletion."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    by_id = topic_id != ZERO_UUID
    if name is None and not by_id:
        message = "Neither topic name nor id were specified."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name is not None and by_id:
        message = "You may not specify both topic name and topic id."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if times > 1:
        what = "id" if by_id else "name"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
    if name is None:
        name = ctx.broker.image.topic_name(topic_id)
        if not name:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    elif name not in ctx.broker.image.topics:
        message = "This server does not host this topic-partition."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return name


def _refuse(result: DeletableTopicResult, error: KafkaError) -> None:
    result.error_code = error.code
    result.error_message = error.message or None
