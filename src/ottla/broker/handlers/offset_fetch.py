"""OffsetFetch (key 9), v1 to v10.

Returns a group's committed offsets: -1, and no error, where there is none. Null topics means all of
them.

v2  group-level error               v5   leader epoch (KIP-320)     v7  require stable (KIP-447)
v8  several groups (KIP-709)        v9   member epoch (KIP-848)     v10 topic ids (KIP-516)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_FROM: Final = 2
SEVERAL_GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10


def handle(
    ctx: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Answer when everything read is committed: it may include offsets that are being stored."""
    response = _read(ctx, request)
    requested = [request.group_id]
    if ctx.version >= SEVERAL_GROUPS_FROM:
        requested = [group.group_id for group in request.groups]
    return ctx.broker.groups.read_committed(response, requested)


def _read(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if ctx.version >= SEVERAL_GROUPS_FROM:
        stable = request.require_stable
        return OffsetFetchResponse(groups=[_fetch(ctx, group, stable) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(request.group_id, topics=topics)
    return _single_group(_fetch(ctx, group, request.require_stable))


def _fetch(
    ctx: RequestContext, group: OffsetFetchRequestGroup, stable: bool
) -> OffsetFetchResponseGroup:
    """Leave in the response only what the client may see."""
    if ctx.rights is None:
        return _committed(ctx, group, stable)
    if not ctx.may(AclOperation.DESCRIBE, AclResource.GROUP, group.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        topics = group.topics or () if ctx.version < GROUP_ERROR_FROM else ()
        return OffsetFetchResponseGroup(
            group.group_id, [_denied(topic, code) for topic in topics], code
        )
    if group.topics is None:
        fetched = _committed(ctx, group, stable)
        fetched.topics = [
            topic for topic in fetched.topics if _may_see(ctx, topic.name, quiet=True)
        ]
        return fetched
    allowed: list[OffsetFetchRequestTopics] = []
    denied: list[OffsetFetchRequestTopics] = []
    for topic in group.topics:
        name = topic.name or ctx.broker.image.topic_name(topic.topic_id)
        (allowed if not name or _may_see(ctx, name) else denied).append(topic)
    group.topics = allowed
    fetched = _committed(ctx, group, stable)
    if not fetched.error_code:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        fetched.topics.extend(_denied(topic, code) for topic in denied)
    return fetched


def _may_see(ctx: RequestContext, topic: str, *, quiet: bool = False) -> bool:
    return ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic, quiet=quiet)


def _committed(
    ctx: RequestContext, group: OffsetFetchRequestGroup, stable: bool
) -> OffsetFetchResponseGroup:
    coordinator = ctx.broker.groups.coordinator
    image = ctx.broker.image
    if ctx.version < TOPIC_IDS_FROM:
        for topic in group.topics or ():
            known = image.topics.get(topic.name)
            if known is not None:  # offsets of a deleted topic with the same name don't count
                topic.topic_id = known.id
        return coordinator.offset_fetch(group, version=ctx.version, stable=stable)
    unknown: list[OffsetFetchResponseTopics] = []
    if group.topics is not None:
        for topic in group.topics:
            topic.name = image.topic_name(topic.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
        unknown = [_denied(topic, code) for topic in group.topics if not topic.name]
        group.topics = [topic for topic in group.topics if topic.name]
    fetched = coordinator.offset_fetch(group, version=ctx.version, stable=stable)
    if group.topics is None:
        # A deleted topic no longer has an id by which the response could name it.
        fetched.topics = [topic for topic in fetched.topics if topic.name in image.topics]
        for answer in fetched.topics:
            answer.topic_id = image.topics[answer.name].id
    if not fetched.error_code:
        fetched.topics.extend(unknown)
    return fetched


def _denied(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(index, -1, -1, "", code)
            for index in topic.partition_indexes
        ],
    )


def _single_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """Before v8 a response has one group, and the message classes have other names."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
