"""Configuration by Kafka's own property names: of the broker, and of whatever has its own."""

from __future__ import annotations

from ottla.config.client_metrics import validate_client_metrics
from ottla.config.definition import (
    ConfigError,
    ConfigType,
    Definition,
    Source,
    Update,
    Value,
    format_value,
)
from ottla.config.group_resource import group_config, validate_group_overrides
from ottla.config.listener_settings import ListenerSettings
from ottla.config.listeners import Listener, advertise, is_loopback
from ottla.config.properties import parse_properties
from ottla.config.server import ServerConfig, Setting, definition_of
from ottla.config.tables import BROKER_CONFIGS
from ottla.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
from ottla.config.tables.group_resource import GROUP_CONFIGS, GROUP_SYNONYMS
from ottla.config.tables.topics import TOPIC_CONFIGS, TOPIC_SYNONYMS
from ottla.config.tls_settings import StoreSettings, TlsSettings, tls_settings
from ottla.config.topics import topic_config, validate_topic_overrides

__all__ = [
    "BROKER_CONFIGS",
    "CLIENT_METRICS_CONFIGS",
    "GROUP_CONFIGS",
    "GROUP_SYNONYMS",
    "TOPIC_CONFIGS",
    "TOPIC_SYNONYMS",
    "ConfigError",
    "ConfigType",
    "Definition",
    "Listener",
    "ListenerSettings",
    "ServerConfig",
    "Setting",
    "Source",
    "StoreSettings",
    "TlsSettings",
    "Update",
    "Value",
    "advertise",
    "definition_of",
    "format_value",
    "group_config",
    "is_loopback",
    "parse_properties",
    "tls_settings",
    "topic_config",
    "validate_client_metrics",
    "validate_group_overrides",
    "validate_topic_overrides",
]
