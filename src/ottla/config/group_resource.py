"""What holds for one group, and what a client may not ask for on its behalf."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.definition import Value, invalid_config, invalid_value
from ottla.config.server import ServerConfig
from ottla.config.tables.group_resource import GROUP_BOUNDS, GROUP_CONFIGS, GROUP_SYNONYMS
from ottla.spelling import did_you_mean

KINDS = ("consumer", "share", "streams")


def group_config(server: ServerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    """What holds for a group: its own configs over the broker's.

    Bounds may have changed since a config was set: what lies outside of them now is drawn in, as
    Kafka does. Overrides are valid apart from that.
    """
    effective: dict[str, Value] = {}
    for name, definition in GROUP_CONFIGS.items():
        text = overrides.get(name)
        if text is not None:
            effective[name] = _drawn_in(server, name, definition.parse(text))
        else:
            synonym = GROUP_SYNONYMS.get(name)
            effective[name] = definition.default if synonym is None else server.get(synonym)
    return effective


def validate_group_overrides(server: ServerConfig, overrides: Mapping[str, str]) -> None:
    """Raise INVALID_CONFIG for an unknown name, a bad value, or one that is out of bounds."""
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


def _drawn_in(server: ServerConfig, name: str, value: Value) -> Value:
    low, high = GROUP_BOUNDS[name]
    if low is not None and _below(value, server.get(low)):
        return server.get(low)
    if high is not None and _below(server.get(high), value):
        return server.get(high)
    return value


def _below(one: Value, other: Value) -> bool:
    assert isinstance(one, int)
    assert isinstance(other, int)
    return one < other
