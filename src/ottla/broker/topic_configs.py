"""Configs as clients see them: each with its value, where that came from, and what else was said.

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
    ConfigType,
    Definition,
    ServerConfig,
    Setting,
    Source,
    Update,
    definition_of,
    format_value,
    topic_config,
)


@dataclass(slots=True, frozen=True)
class ConfigEntry:
    """One config of a resource. `settings` has every layer's word, the one that counts first."""

    name: str
    value: str | None
    source: Source
    type: ConfigType
    doc: str
    read_only: bool
    sensitive: bool
    settings: list[Setting]


def topic_entries(config: ServerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every topic config that there is, as it holds for a topic with these overrides."""
    effective = topic_config(config, overrides)
    entries = []
    for name, definition in TOPIC_CONFIGS.items():
        if definition.internal:
            continue
        value = format_value(effective[name])
        synonyms = TOPIC_SYNONYMS.get(name)
        settings = config.settings(synonyms[0].name) if synonyms is not None else []
        if name in overrides:
            settings.insert(0, Setting(name, value, Source.DYNAMIC_TOPIC))
        entries.append(_entry(definition, settings, value))
    return entries


def broker_entries(config: ServerConfig) -> list[ConfigEntry]:
    """Every broker config that there is, and what else stands in the file."""
    defined = [each.name for each in BROKER_CONFIGS.values() if not each.internal]
    layers = (config.static, config.dynamic_default, config.dynamic_broker)
    others = {name for layer in layers for name in layer if name not in BROKER_CONFIGS}
    return [_broker_entry(config, name, Source.DYNAMIC_BROKER) for name in [*defined, *others]]


def cluster_default_entries(config: ServerConfig) -> list[ConfigEntry]:
    """What was set at run time for all brokers, and nothing else."""
    names = config.dynamic_default
    return [_broker_entry(config, name, Source.DYNAMIC_DEFAULT_BROKER) for name in names]


def _broker_entry(config: ServerConfig, name: str, from_layer: Source) -> ConfigEntry:
    definition = definition_of(name)
    settings = config.settings(name)
    if from_layer is Source.DYNAMIC_DEFAULT_BROKER:
        settings = [setting for setting in settings if setting.source is from_layer]
        value = settings[0].value
    elif name in BROKER_CONFIGS:
        value = format_value(config.get(name))
    else:
        value = settings[0].value
    # A property that nobody knows may be a secret; so may one that is meant to be.
    sensitive = definition is None or definition.sensitive
    return ConfigEntry(
        name=name,
        value=None if sensitive else value,
        source=settings[0].source if settings else Source.DEFAULT,
        type=definition.type if definition is not None else ConfigType.UNKNOWN,
        doc=definition.doc if definition is not None else "",
        read_only=definition is None or definition.update is Update.READ_ONLY,
        sensitive=sensitive,
        settings=settings,
    )


def group_entries(config: ServerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Every group config that there is; as it was set, even if bounds have changed since."""
    entries = []
    for name, definition in GROUP_CONFIGS.items():
        synonym = GROUP_SYNONYMS.get(name)
        if synonym is not None:
            settings = config.settings(synonym)
        else:
            settings = [Setting(name, format_value(definition.default), Source.DEFAULT)]
        if name in overrides:
            value = format_value(definition.parse(overrides[name]))
            settings.insert(0, Setting(name, value, Source.DYNAMIC_GROUP))
        entries.append(_entry(definition, settings, settings[0].value))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """What a subscription says, and the defaults, of which Kafka lists no synonyms."""
    entries = []
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        if name in overrides:
            value = format_value(definition.parse(overrides[name]))
            settings = [Setting(name, value, Source.DYNAMIC_CLIENT_METRICS)]
        else:
            value, settings = format_value(definition.default), []
        entries.append(_entry(definition, settings, value))
    return entries


def _entry(definition: Definition, settings: list[Setting], value: str | None) -> ConfigEntry:
    return ConfigEntry(
        name=definition.name,
        value=value,
        source=settings[0].source if settings else Source.DEFAULT,
        type=definition.type,
        doc=definition.doc,
        read_only=False,
        sensitive=definition.sensitive,
        settings=settings,
    )


def only(entries: Iterable[ConfigEntry], names: list[str] | None) -> list[ConfigEntry]:
    """Those that were asked for; all of them if none was named."""
    if not names:
        return list(entries)
    wanted = set(names)
    return [entry for entry in entries if entry.name in wanted]
