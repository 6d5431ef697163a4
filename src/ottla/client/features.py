"""Feature levels: what the brokers support, and what the cluster has finalized (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class FeatureUpgrade(IntEnum):
    """The kind of an update; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(slots=True, frozen=True)
class FeatureMetadata:
    """`supported` maps features to (min, max) levels; one that is not in `finalized` is at 0."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


class FeatureAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def describe(self, node_id: int | None = None) -> FeatureMetadata:
        """As this broker sees them, or any broker."""
        answer = self._session.connections.call(
            ApiVersionsRequest(client_software_name="ottla", client_software_version="0.1.0"),
            ApiKey.API_VERSIONS,
            ApiVersionsResponse,
            node_id=node_id,
        )
        check(answer.error_code, "")
        return FeatureMetadata(
            {
                feature.name: (feature.min_version, feature.max_version)
                for feature in answer.supported_features
            },
            {feature.name: feature.max_version_level for feature in answer.finalized_features},
            answer.finalized_features_epoch,
        )

    def update(
        self, levels: Mapping[str, int], upgrade: FeatureUpgrade, *, validate_only: bool = False
    ) -> None:
        """Set all of these levels or none; the KafkaError names the one that was refused."""
        updates = [FeatureUpdateKey(name, level, False, upgrade) for name, level in levels.items()]
        answer = self._session.connections.call(
            UpdateFeaturesRequest(int(self._session.timeout_s * 1000), updates, validate_only),
            ApiKey.UPDATE_FEATURES,
            UpdateFeaturesResponse,
        )
        check(answer.error_code, answer.error_message)
