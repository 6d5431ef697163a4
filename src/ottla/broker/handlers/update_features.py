"""UpdateFeatures (key 57), v0 to v2 (KIP-584).

Sets the finalized level of features for the whole cluster: all updates of a request, or none. Every
registered broker must support the level.

v1  upgrade types, validate only        v2  no results for single features (KIP-1022)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.features import finalized
from ottla.broker.request_context import RequestContext
from ottla.cluster.feature_updates import FeatureUpdate, UpgradeType, update_features
from ottla.cluster.image import MetadataImage
from ottla.cluster.store import Write
from ottla.errors import KafkaError
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(
    ctx: RequestContext, request: UpdateFeaturesRequest
) -> Awaitable[UpdateFeaturesResponse]:
    return _update(ctx, request)


async def _update(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    broker = ctx.broker
    updates = [_wanted(update, ctx.version) for update in request.feature_updates]

    def decide(image: MetadataImage) -> list[Write]:
        return update_features(image, finalized(image), updates, broker.node_id)

    try:
        await broker.settings.commit_decision(decide, validate_only=request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or None)
    results = (
        [] if ctx.version >= 2 else [UpdatableFeatureResult(update.name) for update in updates]
    )
    return UpdateFeaturesResponse(results=results)


def _wanted(key: FeatureUpdateKey, version: int) -> FeatureUpdate:
    kind = key.upgrade_type
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if key.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(key.feature, key.max_version_level, kind)
