"""A topic's configs, as the settings that its logs work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ottla.config import ServerConfig, topic_config
from ottla.storage.log import LogConfig

# LogConfig's fields are Kafka's names with underscores.
FIELDS: Final = tuple((field.name, field.name.replace("_", ".")) for field in fields(LogConfig))


def log_settings(server: ServerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """What was set for the topic, over what the broker has as defaults."""
    values = topic_config(server, overrides)
    settings: dict[str, Any] = {field: values[name] for field, name in FIELDS}
    settings["cleanup_policy"] = frozenset(settings["cleanup_policy"])
    return LogConfig(**settings)
