"""The effective configuration of one group, and the validation of its overrides."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.definition import Value, invalid_config, invalid_value
from ottla.config.server import ServerConfig
from ottla.config.tables.group_configs import GROUP_BOUNDS, GROUP_CONFIGS, GROUP_SYNONYMS
from ottla.spelling import did_you_mean

KINDS = ("consumer", "share", "streams")


def group_config(server: ServerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """The effective configs of a group: its own over the broker's.

    The broker's bounds may have changed since an override was set: a value outside them is clamped,
    as in Kafka. Apart from that overrides must be valid.
    """
    effective: dict[str, Value] = {}
    for name, definition in GROUP_CONFIGS.items():
        text = overrides.get(name)
        if text is not None:
            effective[name] = _clamped(server, name, definition.parse(text))
        else:
            synonym = GROUP_SYNONYMS.get(name)
            effective[name] = definition.default if synonym is None else server.get(synonym)
    return effective


def validate_group_overrides(server: ServerConfig, overrides: Mapping[str, str]) -> None:
    """INVALID_CONFIG for an unknown name, an invalid value, or one out of bounds."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            hint = did_you_mean(name, GROUP_CONFIGS)
            raise invalid_config(f"Unknown group config name: {name}{hint}")
    for name, text in overrides.items():
        try:
            value = GROUP_CONFIGS[name].parse(text)
        except ValueError as error:
            raise invalid_config(invalid_value(name, text, str(error))) from None
        low, high = GROUP_BOUNDS[name]
        if low is not None and _below(value, server.get(low)):
            raise invalid_config(f"{name} must be greater than or equal to {low}")
        if high is not None and _below(server.get(high), value):
            raise invalid_config(f"{name} must be less than or equal to {high}")
    effective = group_config(server, overrides)
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if not _below(effective[heartbeat], effective[session]):
            raise invalid_config(f"{session} must be greater than {heartbeat}")


def _clamped(server: ServerConfig, name: str, value: Value) -> Value:
    low, high = GROUP_BOUNDS[name]
    if low is not None and _below(value, server.get(low)):
        return server.get(low)
    if high is not None and _below(server.get(high), value):
        return server.get(high)
    return value


def _below(value: Value, bound: Value) -> bool:
    assert isinstance(value, int)
    assert isinstance(bound, int)
    return value < bound
