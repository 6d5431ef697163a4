"""StreamsGroupHeartbeat (key 88), v0 (KIP-1071).

A member of a Kafka Streams application joins with its topology, reports the tasks that it owns, and
gets its assignment. Epoch 0 joins, -1 leaves.

The broker creates the internal topics of the application (repartition and changelog topics). Kafka
does so after the response, and the group gets tasks with the next heartbeat; here the response
waits for the topics. Topics that can't be created are listed in the status MISSING_INTERNAL_TOPICS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.auto_create import auto_create_topic
from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.cluster.topics import TopicSpec
from ottla.coordinator.streams.group_requests import heartbeat, missing_topics
from ottla.coordinator.streams.heartbeat import StreamsHeartbeat
from ottla.coordinator.streams.topology import StreamsInternalTopic
from ottla.errors import KafkaError
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def handle(
    ctx: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    missing = missing_topics(ctx.broker.groups.coordinator, request)
    if missing:
        return _create_and_answer(ctx, request, missing)
    return _answer(ctx, request, {})


async def _create_and_answer(
    ctx: RequestContext,
    request: StreamsGroupHeartbeatRequest,
    missing: tuple[StreamsInternalTopic, ...],
) -> StreamsGroupHeartbeatResponse:
    failures = {}
    may_create_all = ctx.may(AclOperation.CREATE, AclResource.CLUSTER, quiet=True)
    for topic in missing:
        if not may_create_all and not ctx.may(AclOperation.CREATE, AclResource.TOPIC, topic.name):
            failures[topic.name] = f"Unauthorized to CREATE on topics {topic.name}."
            continue
        spec = TopicSpec(
            topic.name,
            partition_count=topic.partition_count,
            replication_factor=topic.replication_factor or -1,
            configs=dict(topic.configs),
        )
        try:
            await auto_create_topic(ctx.broker, spec)
        except KafkaError as error:
            failures[topic.name] = error.message or error.code.name
    result = _answer(ctx, request, failures)
    return result if isinstance(result, StreamsGroupHeartbeatResponse) else await result


def _answer(
    ctx: RequestContext, request: StreamsGroupHeartbeatRequest, failures: Mapping[str, str]
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    beat = StreamsHeartbeat(
        request,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",  # as Java prints an address without a host name
        failures=failures,
    )
    answer = Promise[StreamsGroupHeartbeatResponse]()
    groups.carry_out(heartbeat(groups.coordinator, beat, token=answer, now_ms=now_ms), now_ms)
    return answer.result()
