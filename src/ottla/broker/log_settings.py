"""The settings of a topic's logs: its own configs over the broker's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ottla.config import ServerConfig, topic_config
from ottla.storage.log import LogConfig

# LogConfig's fields are Kafka's names with underscores.
FIELDS: Final = tuple((field.name, field.name.replace("_", ".")) for field in fields(LogConfig))


def log_settings(server: ServerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The topic's own configs over the broker's defaults."""
    values = topic_config(server, overrides)
    settings: dict[str, Any] = {field: values[name] for field, name in FIELDS}
    settings["cleanup_policy"] = frozenset(settings["cleanup_policy"])
    return LogConfig(**settings)
