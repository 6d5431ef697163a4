"""AlterClientQuotas (key 49), v0 to v1 (KIP-546).

Sets and removes quotas of users, client ids, pairs of both, and IP addresses. Each entity succeeds
or fails by itself; the changes that succeed are in force when the response is sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable

from ottla.broker.quota_entities import (
    IP,
    QuotaAlteration,
    altered_quotas,
    check_entity,
    duplicate_entity,
    quota_entity_of,
)
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)


def handle(
    ctx: RequestContext, request: AlterClientQuotasRequest
) -> Awaitable[AlterClientQuotasResponse]:
    return _alter(ctx, request)


async def _alter(
    ctx: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    results: dict[QuotaEntity, KafkaError | None] = {}
    alterations: dict[QuotaEntity, list[QuotaAlteration]] = {}
    repeated = set()
    for entry in request.entries:
        entity = quota_entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in results:
            repeated.add(entity)
            continue
        results[entity] = None
        try:
            await _check(entity)
        except KafkaError as error:
            results[entity] = error
        else:
            alterations[entity] = [(op.key, op.value, op.remove) for op in entry.ops]
    try:
        results |= await ctx.broker.settings.alter_quotas(
            alterations,
            lambda entity, present: altered_quotas(entity, present, alterations[entity]),
            validate_only=request.validate_only,
        )
    except KafkaError as error:
        results |= dict.fromkeys(alterations, error)
    results |= {entity: duplicate_entity(entity) for entity in repeated}
    return AlterClientQuotasResponse(
        entries=[_result(entity, failure) for entity, failure in results.items()]
    )


async def _check(entity: QuotaEntity) -> None:
    check_entity(entity)
    kind, name = entity[0]
    if kind != IP or name is None:
        return
    try:
        ipaddress.ip_address(name)
    except ValueError:
        try:
            await asyncio.get_running_loop().getaddrinfo(name, None)
        except (OSError, UnicodeError):
            message = f"{name} is not a valid IP or resolvable host."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None


def _result(entity: QuotaEntity, failure: KafkaError | None) -> ResponseEntryData:
    result = ResponseEntryData(entity=[EntityData(kind, name) for kind, name in entity])
    if failure is not None:
        result.error_code = failure.code
        result.error_message = failure.message or None
    return result
