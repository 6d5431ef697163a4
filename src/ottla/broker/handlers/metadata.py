"""Metadata (key 3), v0 to v13.

Brokers, topics and who leads what. A topic that is asked for by name and does not exist is
created when the request allows it and `auto.create.topics.enable` says so; the response already
shows it.

v1   null means all topics; controller    v4   allow_auto_topic_creation    v5   offline replicas
v7   leader epoch (KIP-320)               v8   authorized operations (KIP-430)
v10  topic ids (KIP-516)   v12  topics by id   v13  rebootstrap (KIP-1102)
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from ottla.broker.context import Context
from ottla.broker.leadership import visible_leader
from ottla.broker.operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from ottla.cluster.decisions import check_topic_name
from ottla.cluster.image import Partition, Topic
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID

BY_ID_FROM: Final = 12  # v10 and v11 have the fields already, and may not use them


def handle(
    ctx: Context, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    missing = _to_create(ctx, request)
    if missing:
        return _create_and_answer(ctx, request, missing)
    if ctx.broker.lookout.has_doubts:
        return _answer_when_settled(ctx, request)
    return _answer(ctx, request, {})


def _to_create(ctx: Context, request: MetadataRequest) -> list[str]:
    if not ctx.broker.config.auto_create_topics_enable:
        return []
    if ctx.version >= 4 and not request.allow_auto_topic_creation:
        return []
    known = ctx.broker.image.topics
    return [
        topic.name
        for topic in request.topics or ()
        if topic.name is not None and topic.topic_id == ZERO_UUID and topic.name not in known
    ]


async def _create_and_answer(
    ctx: Context, request: MetadataRequest, names: list[str]
) -> MetadataResponse:
    failed: dict[str, ErrorCode] = {}
    for name in dict.fromkeys(names):
        try:
            await ctx.broker.auto_create(name)
        except KafkaError as error:
            failed[name] = error.code
    return _answer(ctx, request, failed)


async def _answer_when_settled(ctx: Context, request: MetadataRequest) -> MetadataResponse:
    """A broker may be dead, and nobody elected in its place: that takes a moment only."""
    await ctx.broker.lookout.settle(lambda: _leaders(ctx, request))
    return _answer(ctx, request, {})


def _leaders(ctx: Context, request: MetadataRequest) -> set[int]:
    topics = ctx.broker.image.topics
    if request.topics is not None:
        by_id = (ctx.broker.image.topic_name(each.topic_id) for each in request.topics)
        names = {*(each.name for each in request.topics), *by_id}
        topics = {name: topic for name, topic in topics.items() if name in names}
    return {each.leader for topic in topics.values() for each in topic.partitions}


def _answer(
    ctx: Context, request: MetadataRequest, failed: dict[str, ErrorCode]
) -> MetadataResponse:
    image = ctx.broker.image
    everything = request.topics is None or (ctx.version == 0 and not request.topics)
    if everything:
        topics = [_topic(ctx, request, image.topics[name]) for name in sorted(image.topics)]
    else:
        once = {(each.topic_id, each.name): each for each in request.topics or ()}
        topics = [_asked(ctx, request, asked, failed) for asked in once.values()]
    operations = ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
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


def _asked(
    ctx: Context,
    request: MetadataRequest,
    asked: MetadataRequestTopic,
    failed: dict[str, ErrorCode],
) -> MetadataResponseTopic:
    image = ctx.broker.image
    name = asked.name or ""
    by_id = asked.topic_id != ZERO_UUID
    if ctx.version < BY_ID_FROM and (by_id or asked.name is None):
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
    if by_id:
        name = image.topic_name(asked.topic_id)
        if not name:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return _topic(ctx, request, image.topics[name])
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(ctx, request, topic)
    return MetadataResponseTopic(error_code=failed.get(name) or _why_missing(name), name=name)


def _why_missing(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(ctx: Context, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(ctx, topic.name, partition) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _partition(ctx: Context, topic: str, partition: Partition) -> MetadataResponsePartition:
    offline = ctx.broker.offline_replicas(topic, partition)
    leader, code = visible_leader(partition, offline)
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )
