"""The effective configuration of a group, and durations."""

from __future__ import annotations

import pytest

from ottla.config import BROKER_CONFIGS, GROUP_SYNONYMS, ServerConfig, group_config
from ottla.config.durations import duration_ms
from ottla.config.tables.group_configs import GROUP_BOUNDS, GROUP_CONFIGS


def test_every_synonym_and_bound_is_a_broker_property_with_the_same_default() -> None:
    for name, synonym in GROUP_SYNONYMS.items():
        assert BROKER_CONFIGS[synonym].default == GROUP_CONFIGS[name].default
    for pair in GROUP_BOUNDS.values():
        assert {name for name in pair if name is not None} <= set(BROKER_CONFIGS)


def test_a_groups_own_config_overrides_the_brokers() -> None:
    server = ServerConfig({"group.share.session.timeout.ms": "50000"})
    assert group_config(server, {})["share.session.timeout.ms"] == 50000
    own = group_config(server, {"share.session.timeout.ms": "55000"})
    assert own["share.session.timeout.ms"] == 55000
    assert own["share.isolation.level"] == "read_uncommitted"


@pytest.mark.parametrize(("text", "value"), [("1", 45000), ("99999", 60000), ("50000", 50000)])
def test_a_config_outside_the_current_bounds_is_clamped(text: str, value: int) -> None:
    server = ServerConfig({})
    name = "consumer.session.timeout.ms"
    assert group_config(server, {name: text})[name] == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt0.0019s", 1),
        ("PT-1H30M", -1_800_000),
        ("-PT1S", -1000),
        ("PT-1.5S", -1500),
        ("P2D", 172_800_000),
    ],
)
def test_durations(text: str, value: int) -> None:
    assert duration_ms(text) == value


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "P1DT", "PT1.5H", "P1Y"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_ms(text)
