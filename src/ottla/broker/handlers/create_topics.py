"""CreateTopics (key 19), v2 to v7.

Each topic of a request succeeds or fails by itself; those that succeed are stored, have leaders and
are visible when the response is sent. -1 partitions or replicas means the broker's default.

v4  -1 means the default       v5  configs of the new topic (KIP-525)
v6  throttling quota (KIP-599) v7  topic ids (KIP-516)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Final

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.forwarding import forward_to_controller
from ottla.broker.quota_charges import MutationQuotaCharge
from ottla.broker.request_context import RequestContext
from ottla.broker.topic_configs import topic_config_entries
from ottla.cluster.image import MetadataImage, TopicImage
from ottla.cluster.topics import TopicSpec
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

STRICT_FROM: Final = 6


def handle(ctx: RequestContext, request: CreateTopicsRequest) -> Awaitable[CreateTopicsResponse]:
    def seen(image: MetadataImage, response: CreateTopicsResponse) -> bool:
        return request.validate_only or all(
            topic.name in image.topics for topic in response.topics if not topic.error_code
        )

    return forward_to_controller(
        ctx,
        request,
        ApiKey.CREATE_TOPICS,
        CreateTopicsResponse,
        here=_create,
        seen=seen,
        refused=_refused,
    )


def _refused(
    ctx: RequestContext, request: CreateTopicsRequest, error: KafkaError
) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[_result(ctx, name, error, request.validate_only) for name in names]
    )


async def _create(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    results: dict[str, TopicImage | KafkaError] = {}
    specs = []
    times = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            specs.append(_topic_spec(topic))
        except KafkaError as error:
            results[topic.name] = error
    charge = MutationQuotaCharge(ctx, strict_from=STRICT_FROM)
    results |= await ctx.broker.controller.create_topics(
        specs, validate_only=request.validate_only, charge=charge
    )
    await ctx.broker.caught_up()
    return CreateTopicsResponse(
        throttle_time=charge.throttle_ms,
        topics=[_result(ctx, name, results[name], request.validate_only) for name in times],
    )


def _topic_spec(topic: CreatableTopic) -> TopicSpec:
    assignment = {entry.partition_index: entry.broker_ids for entry in topic.assignments}
    if len(assignment) != len(topic.assignments):
        times = Counter(entry.partition_index for entry in topic.assignments)
        twice = next(index for index, count in times.items() if count > 1)
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Found multiple manual partition assignments for partition {twice}",
        )
    return TopicSpec(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignment,
        {config.name: config.value for config in topic.configs},
    )


def _result(
    ctx: RequestContext, name: str, result: TopicImage | KafkaError, validate_only: bool
) -> CreatableTopicResult:
    if isinstance(result, KafkaError):
        # The Java client requires an array of configs even here (KIP-525), so an empty one.
        return CreatableTopicResult(
            name=name,
            error_code=result.code,
            error_message=result.message or None,
            configs=[],
        )
    described = CreatableTopicResult(
        name=name,
        num_partitions=len(result.partitions),
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in topic_config_entries(ctx.broker.config, result.configs)
        ],
    )
    if not ctx.may(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC, name):
        described.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        described.num_partitions = described.replication_factor = -1
        described.configs = []
    if not validate_only:  # a topic that was only validated has no id
        described.topic_id = result.id
    return described
