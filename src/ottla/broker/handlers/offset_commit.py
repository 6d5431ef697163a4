"""OffsetCommit (key 8), v2 to v10.

Commits a group's offsets. Partitions that do not exist get an error each; the others are stored
together.

v2-4  retention time                 v6   leader epoch (KIP-320)
v7    static members (KIP-345)       v9   GROUP_ID_NOT_FOUND (KIP-848)
v10   topic ids (KIP-516)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.commit_topics import merge_responses, split_by_existence
from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_FROM: Final = 10


def handle(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    refused = [_remove_unknown(ctx, topic) for topic in request.topics]
    topics = request.topics
    request.topics = [topic for topic in topics if topic.partitions]
    if not request.topics:
        return OffsetCommitResponse(topics=refused)
    groups, answer = ctx.broker.groups, Promise[OffsetCommitResponse]()
    outcome = groups.coordinator.offset_commit(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.then(lambda response: _merge(refused, topics, response)).result()


def _remove_unknown(
    ctx: RequestContext, topic: OffsetCommitRequestTopic
) -> OffsetCommitResponseTopic:
    """Keep only existing partitions in a topic of the request, and fill in its name and id."""
    image = ctx.broker.image
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ctx.version >= TOPIC_IDS_FROM:
        topic.name = image.topic_name(topic.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.name else ErrorCode.UNKNOWN_TOPIC_ID
    known = image.topics.get(topic.name)
    count = 0
    if known is not None:
        topic.topic_id = known.id
        count = len(known.partitions)
    refused = OffsetCommitResponseTopic(topic.name, topic.topic_id)
    topic.partitions, others = split_by_existence(topic.partitions, count)
    refused.partitions = [OffsetCommitResponsePartition(index, unknown) for index in others]
    return refused


def _merge(
    refused: list[OffsetCommitResponseTopic],
    topics: list[OffsetCommitRequestTopic],
    response: OffsetCommitResponse,
) -> OffsetCommitResponse:
    merge_responses(refused, topics, response.topics)
    return OffsetCommitResponse(topics=refused)
