"""Configuration by Kafka's own property names: of the broker, and of each topic."""

from __future__ import annotations

from ottla.config.definition import (
    ConfigError,
    ConfigType,
    Definition,
    Source,
    Update,
    Value,
    format_value,
)
from ottla.config.listeners import Listener, advertise
from ottla.config.properties import parse_properties
from ottla.config.server import ServerConfig, Setting, definition_of
from ottla.config.tables import BROKER_CONFIGS
from ottla.config.tables.topics import TOPIC_CONFIGS, TOPIC_SYNONYMS
from ottla.config.topics import topic_config, validate_topic_overrides

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "TOPIC_SYNONYMS",
    "ConfigError",
    "ConfigType",
    "Definition",
    "Listener",
    "ServerConfig",
    "Setting",
    "Source",
    "Update",
    "Value",
    "advertise",
    "definition_of",
    "format_value",
    "parse_properties",
    "topic_config",
    "validate_topic_overrides",
]
