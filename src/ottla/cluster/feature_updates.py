"""Finalized feature levels of the cluster (KIP-584, KIP-1022): pure functions.

Each broker supports a range of levels of a feature; the cluster's finalized level is one of them,
by default that of the program. The checks and their messages are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.cluster import layout
from ottla.cluster.image import MetadataImage, SupportedFeature
from ottla.cluster.store import Create, Put, Write
from ottla.errors import ErrorCode, KafkaError


class UpgradeType(IntEnum):
    """Which changes of the level a client allows; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(slots=True, frozen=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int


def update_features(
    image: MetadataImage, present: Mapping[str, int], updates: Iterable[FeatureUpdate], node_id: int
) -> list[Write]:
    """All of the updates or none; `present` has the current level of each feature."""
    levels = dict(image.feature_levels)
    for update in updates:
        try:
            _check(image, present.get(update.name, 0), update, node_id)
        except KafkaError as error:
            message = (
                "The update failed for all features since the following feature had an error: "
                f"{error.message}"
            )
            raise KafkaError(error.code, message) from None
        levels[update.name] = update.level
    if levels == image.feature_levels:
        return []
    value = layout.dump_features(levels)
    if image.features_version is None:
        return [Create(layout.FEATURES, value)]
    return [Put(layout.FEATURES, value, image.features_version)]


def _check(image: MetadataImage, present: int, update: FeatureUpdate, node_id: int) -> None:
    if update.upgrade_type not in tuple(UpgradeType):
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.id != node_id):
        who = f"Local controller {node_id}" if broker.id == node_id else f"Broker {broker.id}"
        reason = _unsupported(broker.features, update)
        if reason:
            raise _invalid(update, f"{who} {reason}")
    if update.level < present and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade.",
        )
    if update.level > present and update.upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _unsupported(features: Iterable[SupportedFeature], update: FeatureUpdate) -> str | None:
    for feature in features:
        if feature.name == update.name:
            low, high = feature.level_min, feature.level_max
            return None if low <= update.level <= high else f"only supports versions {low}-{high}"
    return "does not support this feature."


def _invalid(update: FeatureUpdate, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.name}. {reason}",
    )
