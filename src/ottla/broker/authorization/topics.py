"""Authorization of creating, growing and deleting topics."""

from __future__ import annotations

from typing import Any

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.authorization.authorization_steps import (
    DENIED_CODES,
    DENIED_MESSAGES,
    map_response,
)
from ottla.broker.handlers.delete_topics import BY_ID_FROM
from ottla.broker.request_context import Handler, RequestContext
from ottla.errors import ErrorCode
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicResult
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

O, R = AclOperation, AclResource  # noqa: E741
TOPIC_DENIED = DENIED_CODES[R.TOPIC]


def create_topic_denied(topic: CreatableTopic, code: ErrorCode) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name, error_code=code, error_message=DENIED_MESSAGES[code], configs=[]
    )


def create_partitions_denied(
    topic: CreatePartitionsTopic, code: ErrorCode
) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, code, DENIED_MESSAGES[code])


def delete_topics(handle: Handler, ctx: RequestContext, request: DeleteTopicsRequest) -> Any:
    """DELETE on the cluster or on each topic; the name of a topic is shown only with DESCRIBE."""
    if ctx.may(O.DELETE, R.CLUSTER, quiet=True):
        return handle(ctx, request)
    by_id = ctx.version >= BY_ID_FROM
    requested = request.topics
    if not by_id:
        requested = [DeleteTopicState(name=name) for name in request.topic_names]
    answers = [(topic, _delete_denied(ctx, topic)) for topic in requested]
    denied = [answer for _, answer in answers if answer is not None]
    if not denied:
        return handle(ctx, request)
    allowed = [topic for topic, answer in answers if answer is None]
    if not allowed:
        return DeleteTopicsResponse(responses=denied)
    request.topics = allowed if by_id else []
    request.topic_names = [] if by_id else [topic.name or "" for topic in allowed]

    def merged(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += denied
        return response

    return map_response(handle(ctx, request), merged)


def _delete_denied(ctx: RequestContext, topic: DeleteTopicState) -> DeletableTopicResult | None:
    name = topic.name
    if name is None:
        name = ctx.broker.image.topic_name(topic.topic_id)
        if not name:
            return None  # no topic has this id: the handler returns the error
        if not ctx.may(O.DESCRIBE, R.TOPIC, name):
            return _topic_denied(None, topic.topic_id)
    if ctx.may(O.DELETE, R.TOPIC, name):
        return None
    if name not in ctx.broker.image.topics and ctx.may(O.DESCRIBE, R.TOPIC, name):
        return None  # the client may know that there is no such topic
    return _topic_denied(name, topic.topic_id)


def _topic_denied(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    message = DENIED_MESSAGES[TOPIC_DENIED]
    return DeletableTopicResult(name, topic_id or ZERO_UUID, TOPIC_DENIED, message)
