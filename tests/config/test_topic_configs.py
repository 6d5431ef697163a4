"""Topic configs: defaults from the broker, overrides, and what is refused."""

from __future__ import annotations

import pytest

from ottla.config import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    TOPIC_SYNONYMS,
    ServerConfig,
    format_value,
    topic_config,
    validate_topic_overrides,
)
from ottla.errors import ErrorCode, KafkaError


def test_defaults_agree_with_those_of_the_broker() -> None:
    effective = topic_config(ServerConfig({}), {})
    for name, definition in TOPIC_CONFIGS.items():
        assert effective[name] == definition.default, name


def test_synonyms_name_properties_that_exist_and_may_change() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        assert name in TOPIC_CONFIGS
        assert all(synonym.name in BROKER_CONFIGS for synonym in synonyms)
        assert BROKER_CONFIGS[synonyms[0].name].update.name == "CLUSTER_WIDE", name


def test_a_topic_takes_the_brokers_values_unless_it_has_its_own() -> None:
    server = ServerConfig(
        {"log.retention.minutes": "1", "message.max.bytes": "9", "log.cleanup.policy": "compact"}
    )
    effective = topic_config(server, {"max.message.bytes": "5", "segment.ms": "10"})
    assert effective["retention.ms"] == 60_000
    assert effective["max.message.bytes"] == 5
    assert effective["segment.ms"] == 10
    assert effective["cleanup.policy"] == ("compact",)


def test_dynamic_broker_values_reach_topics() -> None:
    server = ServerConfig({"log.retention.ms": "1"})
    changed = server.with_dynamic(default={"log.retention.ms": "2"}, broker={})
    assert topic_config(changed, {})["retention.ms"] == 2


WRONG = [
    ({"nope": "1"}, "Unknown topic config name: nope"),
    ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
    (
        {"retention.ms": "soon"},
        "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ),
    (
        {"retention.ms": "-2"},
        "Invalid value -2 for configuration retention.ms: Value must be at least -1",
    ),
    (
        {"compression.type": "rar"},
        "Invalid value rar for configuration compression.type: String must be one of: "
        "uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
        "conflict topic config setting min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
    ),
    ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
    ({"leader.replication.throttled.replicas": "0-1"}, "must be '*' or a list"),
]


@pytest.mark.parametrize(("overrides", "message"), WRONG)
def test_refuses_bad_overrides(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_overrides(ServerConfig({}), overrides)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert message in caught.value.message


def test_accepts_good_overrides() -> None:
    overrides = {
        "cleanup.policy": "compact, delete",
        "retention.ms": "-1",
        "follower.replication.throttled.replicas": "0:1,1:2",
        "leader.replication.throttled.replicas": "*",
        "min.cleanable.dirty.ratio": "0.01",
        "internal.segment.bytes": "100",
    }
    validate_topic_overrides(ServerConfig({}), overrides)
    effective = topic_config(ServerConfig({}), overrides)
    assert effective["cleanup.policy"] == ("compact", "delete")
    assert effective["internal.segment.bytes"] == 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e-5, "1.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (("a", "b"), "a,b"),
        ((), ""),
        (None, None),
        (7, "7"),
    ],
)
def test_values_are_written_as_java_writes_them(value: object, text: str | None) -> None:
    assert format_value(value) == text  # type: ignore[arg-type]
