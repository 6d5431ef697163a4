"""Configuration under Kafka's own property names: of the broker, topics, groups and client metrics.

    server.py       `ServerConfig`: the values of all broker properties, from defaults, the file and
                    dynamic changes, and which layer each value comes from
    definition.py   what a property is: name, type, default, legal values, when it may change
    tables/         one table of properties per subject; the help texts are in there

A property of Kafka's that Ottla ignores is accepted without a warning (`tables/accepted_*.py`);
an unknown name is warned about. Everything that is wrong with a configuration is reported at once,
in one `ConfigError`.

The room imports no other room, and reads no file but the one that it is given.
"""

from __future__ import annotations

from ottla.config.client_metrics import validate_client_metrics
from ottla.config.definition import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    UpdateMode,
    Value,
    ValueSource,
    format_value,
)
from ottla.config.group_config import group_config, validate_group_overrides
from ottla.config.listener_settings import ListenerSettings
from ottla.config.listeners import Listener, advertise, is_loopback
from ottla.config.properties import parse_properties
from ottla.config.server import LayerValue, ServerConfig, definition_of
from ottla.config.tables import BROKER_CONFIGS
from ottla.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
from ottla.config.tables.group_configs import GROUP_CONFIGS, GROUP_SYNONYMS
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
    "ConfigDefinition",
    "ConfigError",
    "ConfigType",
    "LayerValue",
    "Listener",
    "ListenerSettings",
    "ServerConfig",
    "StoreSettings",
    "TlsSettings",
    "UpdateMode",
    "Value",
    "ValueSource",
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
