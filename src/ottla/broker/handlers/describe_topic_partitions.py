"""DescribeTopicPartitions (key 75), v0 (KIP-966).

Returns topics and their partitions in the order of names, in pages: the response's cursor says
where the next request starts. No topics named means all of them. The arrays of eligible leaders are
never null, which the Java client relies on.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.broker.visible_leader import visible_leader
from ottla.cluster.image import PartitionRegistration, TopicImage
from ottla.cluster.topics import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    everything = not request.topics
    cursor = request.cursor
    named = {topic.name for topic in request.topics}
    names: Iterable[str] = named
    if everything:
        names = [name for name in ctx.broker.image.topics if _may_see(ctx, name, quiet=True)]
    if cursor is not None and (
        cursor.partition_index < 0 or not (everything or cursor.topic_name in named)
    ):
        return _refused(sorted(named))
    start = cursor.topic_name if cursor is not None else ""
    limit = min(
        ctx.broker.config.max_request_partition_size_limit, request.response_partition_limit
    )
    return _describe(ctx, sorted(name for name in names if name >= start), cursor, max(limit, 1))


def _describe(
    ctx: RequestContext, names: list[str], cursor: Cursor | None, limit: int
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    left = limit
    for name in names:
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = ctx.broker.image.topics.get(name)
        if not _may_see(ctx, name):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        if topic is None:
            response.topics.append(_unknown(ctx, name))
            continue
        first = 0
        if cursor is not None and cursor.topic_name == name:
            first = cursor.partition_index
        response.topics.append(_topic(ctx, topic, topic.partitions[first : first + left]))
        if first + left < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + left)
            break
        left -= max(len(topic.partitions) - first, 0)
    return response


def _may_see(ctx: RequestContext, name: str, *, quiet: bool = False) -> bool:
    return ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, name, quiet=quiet)


def _topic(
    ctx: RequestContext, topic: TopicImage, partitions: tuple[PartitionRegistration, ...]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(ctx, topic.name, partition) for partition in partitions],
        topic_authorized_operations=ctx.operations(AclResource.TOPIC, topic.name),
    )


def _partition(
    ctx: RequestContext, topic: str, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    offline = ctx.broker.offline_replicas(topic, partition)
    reachable = ctx.broker.reachable(ctx.session.listener)
    leader, code = visible_leader(partition, offline, reachable)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )


def _unknown(ctx: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_authorized_operations=ctx.operations(AclResource.TOPIC, name),
    )


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    """Each topic gets the error, because the response has no error code for itself."""
    code = ErrorCode.INVALID_REQUEST
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=name) for name in names]
    )
