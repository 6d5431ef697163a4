"""IncrementalAlterConfigs (key 44), v0 to v1.

Sets, unsets, extends and shortens single configs of topics, brokers, loggers, groups and clients'
metrics (KIP-339, KIP-412, KIP-714, KIP-848); what is not named stays. A list that is not set is
extended from its default: `delete` and APPEND `compact` make `delete,compact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.broker.config_changes import Alteration, alter, apply, check_alterations, table_of
from ottla.broker.context import Context
from ottla.broker.loggers import alter_levels
from ottla.broker.resources import ResourceType, check_node_id
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def handle(
    ctx: Context, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    return _alter(ctx, request)


async def _alter(
    ctx: Context, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    times = Counter((each.resource_type, each.resource_name) for each in request.resources)
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


async def _alter_one(ctx: Context, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    alterations: list[Alteration] = [
        (each.name, each.config_operation, each.value) for each in resource.configs
    ]
    check_alterations(alterations)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        check_node_id(resource.resource_name, ctx.broker.node_id)
        alter_levels(alterations, validate_only=validate_only)
        if ctx.broker.access is not None:
            ctx.broker.access.forget()  # the audit log may want what was allowed before, too
        return
    table = table_of(resource.resource_type)

    def change(present: Mapping[str, str]) -> Mapping[str, str]:
        return apply(alterations, present, table)

    await alter(
        ctx.broker,
        resource.resource_type,
        resource.resource_name,
        change,
        validate_only=validate_only,
    )
