"""IncrementalAlterConfigs (key 44), v0 to v1.

Sets, deletes, appends to and subtracts from single configs of topics, brokers, loggers, groups and
client metrics subscriptions (KIP-339, KIP-412, KIP-714, KIP-848); the others are left as they are.
APPEND to a list that is not set starts from its default: `delete` becomes `delete,compact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.broker.config_alteration import (
    ConfigAlteration,
    alter_config,
    apply,
    check_alterations,
    definitions_of,
)
from ottla.broker.loggers import alter_levels
from ottla.broker.request_context import RequestContext
from ottla.broker.resources import ConfigResourceType, check_node_id
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return _alter(ctx, request)


async def _alter(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    times = Counter(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name)
        responses.append(response)
        try:
            if times[kind, name] > 1:
                message = "Each resource must appear at most once."
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
            await _alter_one(ctx, resource, validate_only=request.validate_only)
        except KafkaError as error:
            response.error_code = error.code
            response.error_message = error.message or None
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter_one(
    ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    alterations: list[ConfigAlteration] = [
        (config.name, config.config_operation, config.value) for config in resource.configs
    ]
    check_alterations(alterations)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        check_node_id(resource.resource_name, ctx.broker.node_id)
        alter_levels(alterations, validate_only=validate_only)
        if ctx.broker.access is not None:
            ctx.broker.access.forget()  # cached decisions would bypass the audit log's new level
        return
    table = definitions_of(resource.resource_type)

    def change(present: Mapping[str, str]) -> Mapping[str, str]:
        return apply(alterations, present, table)

    await alter_config(
        ctx.broker,
        resource.resource_type,
        resource.resource_name,
        change,
        validate_only=validate_only,
    )
