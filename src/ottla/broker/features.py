"""The features of this broker (KIP-584), which clients check before they use them.

A feature has a range of levels that this release supports, and a finalized level in the cluster:
the default until an operator sets another (UpdateFeatures). At level 0 a feature is off, and its
APIs are not advertised.

metadata.version names the release of Kafka whose protocol this broker speaks, because tools show it
as the cluster's version. It has one level: the metadata is kept in the metadata store, not in
KRaft's records, so there is nothing to upgrade or downgrade. kraft.version and
eligible.leader.replicas.version are KRaft's and are not supported.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.cluster.image import MetadataImage, SupportedFeature
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import APIS, ApiKey


class Feature(NamedTuple):
    """`level` is the default level. Level 0 disables `apis`."""

    name: str
    level_min: int
    level_max: int
    level: int
    apis: tuple[ApiKey, ...] = ()


FEATURES: Final[tuple[Feature, ...]] = (
    Feature(  # KIP-848
        "group.version",
        0,
        1,
        1,
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE),
    ),
    Feature("metadata.version", 33, 33, 33),  # 4.4-IV2
    Feature(  # KIP-932; from level 2 on dead letter queues, KIP-1191
        "share.version",
        0,
        2,
        2,
        (
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.SHARE_FETCH,
            ApiKey.SHARE_ACKNOWLEDGE,
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ),
    ),
    Feature(  # KIP-1071
        "streams.version",
        0,
        1,
        1,
        (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE),
    ),
    Feature("transaction.version", 0, 2, 2),  # KIP-890
)

SUPPORTED: Final = tuple(
    SupportedFeature(feature.name, feature.level_min, feature.level_max) for feature in FEATURES
)

# Members of a group ask on an open connection, and learn from the error that the feature is off.
REFUSED: Final = frozenset(
    {
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)


def finalized(image: MetadataImage) -> dict[str, int]:
    """The finalized level of each feature."""
    return {
        feature.name: image.feature_levels.get(feature.name, feature.level) for feature in FEATURES
    }


def check_supported(image: MetadataImage) -> None:
    """KafkaError if the cluster has a feature level that this release does not support."""
    for feature in SUPPORTED:
        level = image.feature_levels.get(feature.name, feature.level_max)
        if level > feature.level_max:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "Unable to register because the broker does not support finalized version"
                f" {level} of {feature.name}. The broker wants a version between"
                f" {feature.level_min} and {feature.level_max}, inclusive.",
            )


def disabled_apis(image: MetadataImage) -> frozenset[int]:
    levels = finalized(image)
    return frozenset(
        int(api) for feature in FEATURES if not levels[feature.name] for api in feature.apis
    )


def refusal(api_key: int) -> Any:
    """The error response to a request whose feature is off; None if the request does no harm."""
    if api_key not in REFUSED:
        return None
    response: Any = APIS[api_key].response
    return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
