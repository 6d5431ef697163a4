"""Metadata (key 3), v0 to v13.

Returns the brokers, the topics and the leaders of partitions. A topic that is requested by name and
does not exist is created if the request allows it and `auto.create.topics.enable` is set; the
response already contains it.

v1   null means all topics; controller    v4   allow_auto_topic_creation    v5   offline replicas
v6   LISTENER_NOT_FOUND for a leader that lacks the client's listener
v7   leader epoch (KIP-320)               v8   authorized operations (KIP-430)
v10  topic ids (KIP-516)   v12  topics by id   v13  rebootstrap (KIP-1102)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.authorized_operations import NO_AUTHORIZED_OPERATIONS
from ottla.broker.request_context import RequestContext
from ottla.broker.visible_leader import visible_leader
from ottla.cluster.image import PartitionRegistration, TopicImage
from ottla.cluster.topics import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BY_ID_FROM: Final = 12  # v10 and v11 have the field already, but may not use it

LISTENER_NOT_FOUND_FROM: Final = 6  # older clients get LEADER_NOT_AVAILABLE


def handle(
    ctx: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    missing = _to_create(ctx, request)
    if missing:
        return _create_and_answer(ctx, request, missing)
    if ctx.broker.failure_detector.has_suspects:
        return _answer_after_election(ctx, request)
    return _answer(ctx, request, {})


def _to_create(ctx: RequestContext, request: MetadataRequest) -> list[str]:
    if not ctx.broker.config.auto_create_topics_enable:
        return []
    if ctx.version >= 4 and not request.allow_auto_topic_creation:
        return []
    known = ctx.broker.image.topics
    return [
        topic.name
        for topic in request.topics or ()
        if topic.name is not None
        and topic.topic_id == ZERO_UUID
        and topic.name not in known
        and ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic.name)
    ]


def _may_create(ctx: RequestContext, name: str) -> bool:
    create = AclOperation.CREATE
    return ctx.may(create, AclResource.CLUSTER, quiet=True) or ctx.may(
        create, AclResource.TOPIC, name
    )


async def _create_and_answer(
    ctx: RequestContext, request: MetadataRequest, names: list[str]
) -> MetadataResponse:
    failed: dict[str, ErrorCode] = {}
    for name in dict.fromkeys(names):
        if not _may_create(ctx, name):
            failed[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            await ctx.broker.auto_create(name)
        except KafkaError as error:
            failed[name] = error.code
        await asyncio.sleep(0)  # a client may ask for hundreds, and the embedded store never yields
    return _answer(ctx, request, failed)


async def _answer_after_election(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Wait a moment for elections if a partition's leader is dead."""
    await ctx.broker.failure_detector.wait_until_settled(lambda: _leaders(ctx, request))
    return _answer(ctx, request, {})


def _leaders(ctx: RequestContext, request: MetadataRequest) -> set[int]:
    topics = ctx.broker.image.topics
    if request.topics is not None:
        by_id = (ctx.broker.image.topic_name(topic.topic_id) for topic in request.topics)
        names = {*(topic.name for topic in request.topics), *by_id}
        topics = {name: topic for name, topic in topics.items() if name in names}
    return {partition.leader for topic in topics.values() for partition in topic.partitions}


def _answer(
    ctx: RequestContext, request: MetadataRequest, failed: dict[str, ErrorCode]
) -> MetadataResponse:
    image = ctx.broker.image
    everything = request.topics is None or (ctx.version == 0 and not request.topics)
    if everything:
        topics = [
            _topic(ctx, request, image.topics[name])
            for name in sorted(image.topics)
            if ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, name, quiet=True)
        ]
    else:
        once = {(topic.topic_id, topic.name): topic for topic in request.topics or ()}
        topics = [_requested(ctx, request, requested, failed) for requested in once.values()]
    operations = NO_AUTHORIZED_OPERATIONS
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(ctx)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker, host, port in ctx.broker.endpoints_of_late(ctx.session.listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )


def _requested(
    ctx: RequestContext,
    request: MetadataRequest,
    requested: MetadataRequestTopic,
    failed: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    image = ctx.broker.image
    name = requested.name or ""
    by_id = requested.topic_id != ZERO_UUID
    if ctx.version < BY_ID_FROM and (by_id or requested.name is None):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
    if by_id:
        name = image.topic_name(requested.topic_id)
        if not name:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=requested.topic_id
            )
        if not ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return MetadataResponseTopic(error_code=code, name=None, topic_id=requested.topic_id)
        return _topic(ctx, request, image.topics[name])
    if not ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(ctx, request, topic)
    return MetadataResponseTopic(
        error_code=failed.get(name) or _why_missing(name),
        name=name,
        topic_authorized_operations=_operations(ctx, request, name),
    )


def _why_missing(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(
    ctx: RequestContext, request: MetadataRequest, topic: TopicImage
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(ctx, topic.name, partition) for partition in topic.partitions],
        topic_authorized_operations=_operations(ctx, request, topic.name),
    )


def _operations(ctx: RequestContext, request: MetadataRequest, name: str) -> int:
    if not request.include_topic_authorized_operations:
        return NO_AUTHORIZED_OPERATIONS
    return ctx.operations(AclResource.TOPIC, name)


def cluster_operations(ctx: RequestContext) -> int:
    """No operations for a client that may not DESCRIBE the cluster."""
    if not ctx.may(AclOperation.DESCRIBE, AclResource.CLUSTER, quiet=True):
        return 0
    return ctx.operations(AclResource.CLUSTER)


def _partition(
    ctx: RequestContext, topic: str, partition: PartitionRegistration
) -> MetadataResponsePartition:
    offline = ctx.broker.offline_replicas(topic, partition)
    reachable = ctx.broker.reachable(ctx.session.listener)
    unreachable = (
        ErrorCode.LISTENER_NOT_FOUND
        if ctx.version >= LISTENER_NOT_FOUND_FROM
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
    leader, code = visible_leader(partition, offline, reachable, unreachable=unreachable)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )
