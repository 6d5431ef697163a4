"""UpdateFeatures (key 57), v0 to v2 (KIP-584).

Sets the level of features for the whole cluster: all updates of a request, or none. Every broker
that is registered must support the level.

v1  kinds of upgrade, validate only     v2  no results for single features (KIP-1022)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.features import finalized
from ottla.cluster.decisions_features import FeatureUpdate, UpgradeType, update_features
from ottla.cluster.image import Image
from ottla.cluster.store import Write
from ottla.errors import KafkaError
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


def handle(ctx: Context, request: UpdateFeaturesRequest) -> Awaitable[UpdateFeaturesResponse]:
    return _update(ctx, request)


async def _update(ctx: Context, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    broker = ctx.broker
    updates = [_wanted(each, ctx.version) for each in request.feature_updates]

    def decide(image: Image) -> list[Write]:
        return update_features(image, finalized(image), updates, broker.node_id)

    try:
        await broker.settings.carry_out(decide, validate_only=request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message or None)
    results = [] if ctx.version >= 2 else [UpdatableFeatureResult(each.name) for each in updates]
    return UpdateFeaturesResponse(results=results)


def _wanted(key: FeatureUpdateKey, version: int) -> FeatureUpdate:
    kind = key.upgrade_type
    if version == 0:
        kind = UpgradeType.SAFE_DOWNGRADE if key.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(key.feature, key.max_version_level, kind)
