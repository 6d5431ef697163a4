"""DescribeClientQuotas (key 48), v0 to v1 (KIP-546).

Lists the quotas of all entities that match a filter. For each entity type (user, client-id, ip) the
filter has a name, the default, or any. A strict filter excludes entities of further types.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ottla.broker.quota_entities import CLIENT_QUOTAS, ENTITY_TYPES, IP, IP_QUOTAS
from ottla.broker.request_context import RequestContext
from ottla.cluster.image import QuotaEntity
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

QUOTAS: Final = CLIENT_QUOTAS | IP_QUOTAS  # a user's node also has its SCRAM credentials


class QuotaMatchType(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def handle(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        filters = _filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    quotas = ctx.broker.image.quotas
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(kind, name) for kind, name in entity],
                values=[ValueData(key, float(value)) for key, value in limits.items()],
            )
            for entity, config in quotas.items()
            if _matches(entity, filters, strict=request.strict)
            and (limits := {key: config.values[key] for key in config.values if key in QUOTAS})
        ],
    )


def _filter(components: list[ComponentData]) -> dict[str, ComponentData]:
    filters: dict[str, ComponentData] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in filters:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        filters[kind] = component
    if IP in filters and len(filters) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    return filters


def _check_match(component: ComponentData) -> None:
    match component.match_type:
        case QuotaMatchType.EXACT:
            if component.match is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        case QuotaMatchType.DEFAULT | QuotaMatchType.ANY:
            if component.match is not None:
                name = "DEFAULT" if component.match_type == QuotaMatchType.DEFAULT else "SPECIFIED"
                raise _invalid(
                    f"Request specified MATCH_TYPE_{name}, but also specified a match string."
                )
        case other:
            raise _invalid(f"Unknown match type {other}")


def _matches(entity: QuotaEntity, filters: dict[str, ComponentData], *, strict: bool) -> bool:
    named = dict(entity)
    if strict and set(named) != set(filters):
        return False
    for kind, component in filters.items():
        if kind not in named:
            return False
        if component.match_type != QuotaMatchType.ANY and named[kind] != component.match:
            return False
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
