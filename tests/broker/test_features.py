"""Feature levels: supported ranges, the finalized level, and the APIs that it disables."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client
from replicating_brokers import Brokers, play

from ottla.broker.broker import Broker
from ottla.broker.features import FEATURES
from ottla.cluster import layout
from ottla.cluster.image import SupportedFeature
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE = 1, 2
INVALID = ErrorCode.INVALID_UPDATE_VERSION


async def versions(broker: Broker, version: int = 4) -> Any:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return await Client(broker).ask(ApiKey.API_VERSIONS, request, version)


async def update(broker: Broker, *updates: tuple[str, int, int], **more: Any) -> Any:
    keys = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in updates]
    request = UpdateFeaturesRequest(feature_updates=keys, **more)
    return await Client(broker).ask(ApiKey.UPDATE_FEATURES, request, 2)


def levels(answer: Any) -> dict[str, int]:
    return {
        finalized_feature.name: finalized_feature.max_version_level
        for finalized_feature in answer.finalized_features
    }


def test_a_new_cluster_has_the_feature_levels_of_its_program(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        answer = await versions(cluster[0])
        assert answer.finalized_features_epoch == 0
        assert levels(answer) == {feature.name: feature.level for feature in FEATURES}
        supported = {
            supported_feature.name: supported_feature.min_version
            for supported_feature in answer.supported_features
        }
        assert supported["group.version"] == 0
        old = await versions(cluster[0], 3)
        assert all(
            supported_feature.min_version >= 1 for supported_feature in old.supported_features
        )

    play(tmp_path, act, brokers=1)


def test_a_level_applies_on_every_broker_and_disables_its_apis(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        other = cluster[1]
        assert (await update(cluster[0], ("group.version", 0, SAFE_DOWNGRADE))).error_code == 0
        await cluster.until(lambda: other.image.feature_levels == {"group.version": 0})
        answer = await versions(other)
        assert answer.finalized_features_epoch == 1
        assert "group.version" not in levels(answer)
        served = {api_key.api_key for api_key in answer.api_keys}
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in served
        assert ApiKey.CONSUMER_GROUP_DESCRIBE not in served
        assert ApiKey.SHARE_FETCH in served
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
        refused = await Client(other).ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, beat, 1)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await update(other, ("group.version", 1, UPGRADE))).error_code == 0
        answer = await versions(other)
        assert answer.finalized_features_epoch == 2
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT in {api_key.api_key for api_key in answer.api_keys}

    play(tmp_path, act, brokers=2)


def test_levels_survive_a_restart(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        assert (await update(cluster[0], ("share.version", 0, SAFE_DOWNGRADE))).error_code == 0
        await cluster.stop(0)
        await cluster.start(0)
        assert "share.version" not in levels(await versions(cluster[0]))

    play(tmp_path, act, brokers=1)


@pytest.mark.parametrize(
    ("name", "level", "kind", "reason"),
    [
        ("share.version", 99, UPGRADE, "Local controller 0 only supports versions 0-"),
        ("no.such", 1, UPGRADE, "Local controller 0 does not support this feature."),
        ("metadata.version", 29, SAFE_DOWNGRADE, "Local controller 0 only supports versions"),
        ("transaction.version", 1, UPGRADE, "Can't downgrade the version of this feature without"),
        ("group.version", 0, 9, "The controller does not support the given upgrade type."),
        ("group.version", -1, SAFE_DOWNGRADE, "A feature version cannot be less than 0."),
    ],
)
def test_an_update_is_refused_with_kafkas_messages(
    tmp_path: Path, name: str, level: int, kind: int, reason: str
) -> None:
    async def act(cluster: Brokers) -> None:
        answer = await update(cluster[0], ("share.version", 0, SAFE_DOWNGRADE), (name, level, kind))
        assert answer.error_code == INVALID
        start = "The update failed for all features since the following feature had an error: "
        middle = f"Invalid update version {level} for feature {name}. "
        assert answer.error_message.startswith(start + middle + reason)
        assert levels(await versions(cluster[0]))["share.version"] > 0  # all or none

    play(tmp_path, act, brokers=1)


def test_validate_only_changes_nothing(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        wanted = ("share.version", 0, SAFE_DOWNGRADE)
        assert (await update(cluster[0], wanted, validate_only=True)).error_code == 0
        assert cluster[0].image.features_version is None

    play(tmp_path, act, brokers=1)


def test_version_0_and_1_answer_for_each_feature(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        keys = [FeatureUpdateKey("group.version", 0, allow_downgrade=True)]
        request = UpdateFeaturesRequest(feature_updates=keys)
        answer = await Client(cluster[0]).ask(ApiKey.UPDATE_FEATURES, request, 0)
        assert [(result.feature, result.error_code) for result in answer.results] == [
            ("group.version", 0)
        ]

    play(tmp_path, act, brokers=1)


def test_a_level_that_another_broker_does_not_support_is_refused(tmp_path: Path) -> None:
    """As during a rolling upgrade: broker 1 runs an older version."""

    async def act(cluster: Brokers) -> None:
        await cluster.until(lambda: 1 in cluster[0].image.brokers)
        image = cluster[0].image.brokers[1]
        assert {feature.name for feature in image.features} == {
            feature.name for feature in FEATURES
        }
        await cluster.stop(1)
        older = (SupportedFeature("transaction.version", 0, 1),)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ottla.broker.registration.SUPPORTED", older)
            await cluster.start(1)
        await cluster.until(lambda: 1 in cluster[0].image.brokers)
        answer = await update(cluster[0], ("transaction.version", 2, UPGRADE))
        assert "Broker 1 only supports versions 0-1" in answer.error_message
        answer = await update(cluster[0], ("group.version", 1, UPGRADE))
        assert "Broker 1 does not support this feature." in answer.error_message

    play(tmp_path, act, brokers=2)


def test_a_program_that_does_not_support_the_level_cannot_register(tmp_path: Path) -> None:
    """As after a downgrade of the software without its feature levels."""

    async def act(cluster: Brokers) -> None:
        value = layout.dump_features({"transaction.version": 3})
        await cluster[0]._meta_store.create(layout.FEATURES, value)
        with pytest.raises(KafkaError, match="does not support finalized version 3 of transaction"):
            await cluster.start(1)
        assert 1 not in cluster[0].image.brokers

    play(tmp_path, act, brokers=1)


def test_levels_are_stored_like_kafkas_feature_znode(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await update(cluster[0], ("group.version", 0, SAFE_DOWNGRADE))
        entry = await cluster[0]._meta_store.get("/feature")
        assert entry is not None
        stored = {"version": 2, "status": 1, "features": {"group.version": 0}}
        assert layout.load(entry) == stored

    play(tmp_path, act, brokers=1)


def test_describe_quorum_says_where_the_metadata_is_stored(tmp_path: Path) -> None:
    async def main() -> Any:
        properties = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        broker = Broker(ServerConfig(properties))
        await broker.start()
        try:
            return await Client(broker).ask(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(), 2)
        finally:
            await broker.stop()

    answer = asyncio.run(main())
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message.startswith("This cluster has no KRaft quorum: its metadata is")
