"""Configs as clients see them: each with its value, its source, and its synonyms.

Used by DescribeConfigs, and by CreateTopics, which describes what it has just made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.config import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    GROUP_SYNONYMS,
    TOPIC_CONFIGS,
    TOPIC_SYNONYMS,
    ConfigDefinition,
    ConfigType,
    LayerValue,
    ServerConfig,
    UpdateMode,
    ValueSource,
    definition_of,
    format_value,
    topic_config,
)


@dataclass(slots=True, frozen=True)
class DescribedConfig:
    """One config of a resource. `settings` has every layer's value, the effective one first."""

    name: str
    value: str | None
    source: ValueSource
    type: ConfigType
    doc: str
    read_only: bool
    sensitive: bool
    settings: list[LayerValue]


def topic_config_entries(
    config: ServerConfig, overrides: Mapping[str, str]
) -> list[DescribedConfig]:
    """All topic configs, with the values for a topic with these overrides."""
    effective = topic_config(config, overrides)
    entries = []
    for name, definition in TOPIC_CONFIGS.items():
        if definition.internal:
            continue
        value = format_value(effective[name])
        synonyms = TOPIC_SYNONYMS.get(name)
        settings = config.settings(synonyms[0].name) if synonyms is not None else []
        if name in overrides:
            settings.insert(0, LayerValue(name, value, ValueSource.DYNAMIC_TOPIC))
        entries.append(_entry(definition, settings, value))
    return entries


def broker_config_entries(config: ServerConfig) -> list[DescribedConfig]:
    """All broker configs, and unknown names that are set."""
    defined = [definition.name for definition in BROKER_CONFIGS.values() if not definition.internal]
    layers = (config.static, config.dynamic_default, config.dynamic_broker)
    others = {name for layer in layers for name in layer if name not in BROKER_CONFIGS}
    return [_broker_entry(config, name, ValueSource.DYNAMIC_BROKER) for name in [*defined, *others]]


def default_broker_config_entries(config: ServerConfig) -> list[DescribedConfig]:
    """Only what was set at run time for all brokers."""
    names = config.dynamic_default
    return [_broker_entry(config, name, ValueSource.DYNAMIC_DEFAULT_BROKER) for name in names]


def _broker_entry(config: ServerConfig, name: str, from_layer: ValueSource) -> DescribedConfig:
    definition = definition_of(name)
    settings = config.settings(name)
    if from_layer is ValueSource.DYNAMIC_DEFAULT_BROKER:
        settings = [setting for setting in settings if setting.source is from_layer]
        value = settings[0].value
    elif name in BROKER_CONFIGS:
        value = format_value(config.get(name))
    else:
        value = settings[0].value
    # An unknown property may be a secret.
    sensitive = definition is None or definition.sensitive
    return DescribedConfig(
        name=name,
        value=None if sensitive else value,
        source=settings[0].source if settings else ValueSource.DEFAULT,
        type=definition.type if definition is not None else ConfigType.UNKNOWN,
        doc=definition.doc if definition is not None else "",
        read_only=definition is None or definition.update is UpdateMode.READ_ONLY,
        sensitive=sensitive,
        settings=settings,
    )


def group_config_entries(
    config: ServerConfig, overrides: Mapping[str, str]
) -> list[DescribedConfig]:
    """All group configs; a value as it was set, even if the broker's bounds have changed since."""
    entries = []
    for name, definition in GROUP_CONFIGS.items():
        synonym = GROUP_SYNONYMS.get(name)
        if synonym is not None:
            settings = config.settings(synonym)
        else:
            settings = [LayerValue(name, format_value(definition.default), ValueSource.DEFAULT)]
        if name in overrides:
            value = format_value(definition.parse(overrides[name]))
            settings.insert(0, LayerValue(name, value, ValueSource.DYNAMIC_GROUP))
        entries.append(_entry(definition, settings, settings[0].value))
    return entries


def client_metrics_config_entries(overrides: Mapping[str, str]) -> list[DescribedConfig]:
    """The configs of a subscription; for defaults Kafka lists no synonyms."""
    entries = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if name in overrides:
            value = format_value(definition.parse(overrides[name]))
            settings = [LayerValue(name, value, ValueSource.DYNAMIC_CLIENT_METRICS)]
        else:
            value, settings = format_value(definition.default), []
        entries.append(_entry(definition, settings, value))
    return entries


def _entry(
    definition: ConfigDefinition, settings: list[LayerValue], value: str | None
) -> DescribedConfig:
    return DescribedConfig(
        name=definition.name,
        value=value,
        source=settings[0].source if settings else ValueSource.DEFAULT,
        type=definition.type,
        doc=definition.doc,
        read_only=False,
        sensitive=definition.sensitive,
        settings=settings,
    )


def select_entries(
    entries: Iterable[DescribedConfig], names: list[str] | None
) -> list[DescribedConfig]:
    """The named entries; all of them if no name is given."""
    if not names:
        return list(entries)
    wanted = set(names)
    return [entry for entry in entries if entry.name in wanted]
