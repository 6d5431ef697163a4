"""ApiVersions (key 18), v0 to v5.

Lists the APIs that this broker serves, with their versions. A request in an unknown version is
answered with UNSUPPORTED_VERSION in a v0 body, so that the client can ask again (KIP-511).

v3  client software name and version (KIP-511)     v4  features whose lowest version is 0
v5  the cluster and node that the client expects (KIP-1242)
"""

from __future__ import annotations

import re
from typing import Final

from ottla.broker.dispatch import SERVED
from ottla.broker.features import FEATURES, Feature, finalized
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

# librdkafka before 2.6 disables compression if a broker does not list Produce v0 (KAFKA-18659):
# Produce is listed from v0, although v0 to v2 are refused.
PRODUCE_LISTED_FROM: Final = 0
# Kafka lists these if it has a plug-in for client metrics; we do if there is a subscription.
TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
BETWEEN_BROKERS: Final[frozenset[int]] = frozenset({ApiKey.ENVELOPE})


def handle(ctx: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    if request is None:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_listed(ApiKey.API_VERSIONS)]
        )
    if ctx.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE.fullmatch(name) or not SOFTWARE.fullmatch(version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.session.software = f"{name} {version}"
    if request.cluster_id is not None and not _is_meant(ctx, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    return ApiVersionsResponse(
        api_keys=[_listed(key) for key in sorted(SERVED) if key not in _hidden(ctx)],
        supported_features=[
            SupportedFeatureKey(feature.name, _level_min(ctx, feature), feature.level_max)
            for feature in FEATURES
        ],
        finalized_features_epoch=_features_epoch(ctx),
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in finalized(ctx.broker.image).items()
            if level  # a feature at level 0 is off, and Kafka doesn't list it
        ],
    )


def _is_meant(ctx: RequestContext, request: ApiVersionsRequest) -> bool:
    """False if the client expects another cluster or broker at this address: it learned the
    address from a cluster that has moved since (KIP-1242)."""
    broker = ctx.broker
    return (request.cluster_id, request.node_id) == (broker.image.cluster_id, broker.node_id)


def _features_epoch(ctx: RequestContext) -> int:
    """Grows with every update; 0 while no level has been set."""
    version = ctx.broker.image.features_version
    return 0 if version is None else version + 1


def _level_min(ctx: RequestContext, feature: Feature) -> int:
    """Clients before v4 fail on a range that begins with 0 (KAFKA-17011)."""
    return feature.level_min if ctx.version >= 4 else max(feature.level_min, 1)


def _hidden(ctx: RequestContext) -> frozenset[int]:
    """APIs of disabled features. Telemetry is listed only while there is a subscription, because
    clients that see it ask every few minutes."""
    broker = ctx.broker
    hidden = BETWEEN_BROKERS | broker.disabled_apis
    return hidden if broker.image.client_metrics_configs else hidden | TELEMETRY


def _listed(key: int) -> ApiVersion:
    version_min, version_max = SERVED[key]
    if key == ApiKey.PRODUCE:
        version_min = PRODUCE_LISTED_FROM
    return ApiVersion(api_key=key, min_version=version_min, max_version=version_max)
