"""AlterConfigs (key 33), v0 to v2.

Replaces all configs that are set for a resource: what is not named is unset. Deprecated in
favour of IncrementalAlterConfigs, and still what older clients send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping

from ottla.broker.config_changes import Operation, alter, check_alterations, table_of
from ottla.broker.context import Context
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(ctx: Context, request: AlterConfigsRequest) -> Awaitable[AlterConfigsResponse]:
    return _alter(ctx, request)


async def _alter(ctx: Context, request: AlterConfigsRequest) -> AlterConfigsResponse:
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
    return AlterConfigsResponse(responses=responses)


async def _alter_one(ctx: Context, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    table_of(resource.resource_type)  # refuses loggers, which this API never knew
    check_alterations([(each.name, Operation.SET, each.value) for each in resource.configs])
    values = {each.name: each.value or "" for each in resource.configs}

    def replace(present: Mapping[str, str]) -> Mapping[str, str]:
        return values

    await alter(
        ctx.broker,
        resource.resource_type,
        resource.resource_name,
        replace,
        validate_only=validate_only,
    )
