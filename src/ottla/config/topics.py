"""The effective configuration of a topic, and the validation of its overrides."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.definition import Value, invalid_config, invalid_value
from ottla.config.server import ServerConfig
from ottla.config.tables.topics import TOPIC_CONFIGS
from ottla.spelling import did_you_mean


def topic_config(server: ServerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """The effective configs of a topic: its overrides, which must be valid, over the broker's."""
    effective = dict(server.topic_defaults)
    for name, text in overrides.items():
        effective[name] = TOPIC_CONFIGS[name].parse(text)
    return effective


def validate_topic_overrides(server: ServerConfig, overrides: Mapping[str, str | None]) -> None:
    """INVALID_CONFIG for an unknown name, an invalid value, or contradictory values."""
    for name, text in overrides.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            hint = did_you_mean(name, TOPIC_CONFIGS)
            raise invalid_config(f"Unknown topic config name: {name}{hint}")
        if text is None:
            raise invalid_config(f"Null value not supported for topic configs: {name}")
        try:
            definition.parse(text)
        except ValueError as error:
            raise invalid_config(invalid_value(name, text, str(error))) from None
    present = {name: text for name, text in overrides.items() if text is not None}
    _refuse_contradictions(topic_config(server, present))


def _refuse_contradictions(effective: Mapping[str, Value]) -> None:
    low, high = effective["min.compaction.lag.ms"], effective["max.compaction.lag.ms"]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise invalid_config(
            f"conflict topic config setting min.compaction.lag.ms ({low})"
            f" > max.compaction.lag.ms ({high})"
        )
    if effective["remote.storage.enable"]:
        raise invalid_config(
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage."
        )
