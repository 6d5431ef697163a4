"""AlterConfigs (key 33), v0 to v2 (KIP-133).

Replaces all configs of a resource: those that the request does not name are unset. Deprecated in
favour of IncrementalAlterConfigs, but older clients still send it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.broker.config_alteration import (
    AlterConfigOp,
    alter_config,
    check_alterations,
    definitions_of,
)
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(ctx: RequestContext, request: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return _alter(ctx, request)


async def _alter(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
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
    return AlterConfigsResponse(responses=responses)


async def _alter_one(
    ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> None:
    definitions_of(resource.resource_type)  # refuses loggers, which this API never supported
    check_alterations(
        [(config.name, AlterConfigOp.SET, config.value) for config in resource.configs]
    )
    values = {config.name: config.value or "" for config in resource.configs}

    def replace(present: Mapping[str, str]) -> Mapping[str, str]:
        return values

    await alter_config(
        ctx.broker,
        resource.resource_type,
        resource.resource_name,
        replace,
        validate_only=validate_only,
    )
