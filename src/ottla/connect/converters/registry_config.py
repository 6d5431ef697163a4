"""The settings that converters with a schema registry share, by Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.serdes.subject_names import strategy_of
from ottla.connect.config import ConfigDef, ConfigType, Importance
from ottla.connect.converters.converter import converter_config
from ottla.connect.errors import ConfigException
from ottla.connect.validators import at_least


def registry_config() -> ConfigDef:
    """The shared settings. `schema.registry.ssl.*` are passed to the registry client."""
    config = (
        converter_config()
        .define("schema.registry.url", ConfigType.LIST, importance=Importance.HIGH,
                doc="The URLs of the schema registry, separated by commas.")
        .define("auto.register.schemas", ConfigType.BOOLEAN, True, Importance.MEDIUM,
                "Whether to register schemas that are new to their subject.")
        .define("use.latest.version", ConfigType.BOOLEAN, False, Importance.LOW,
                "Whether to write values with the subject's latest version. Only without"
                " auto.register.schemas.")
        .define("use.schema.id", ConfigType.INT, -1, Importance.LOW,
                "The id of the schema to write with. Only without auto.register.schemas.")
        .define("latest.compatibility.strict", ConfigType.BOOLEAN, True, Importance.LOW,
                "Whether that schema must be compatible with the connector's.")
        .define("latest.cache.ttl.sec", ConfigType.INT, -1, Importance.LOW,
                "After how many seconds to look up the latest version again; -1: never.")
        .define("normalize.schemas", ConfigType.BOOLEAN, False, Importance.LOW,
                "Whether to normalize schemas for registration and lookup.")
        .define("schemas.cache.size", ConfigType.INT, 1000, Importance.LOW,
                "The maximum number of schemas per topic in the cache.",
                validator=at_least(1))
    )  # fmt: skip
    for half in ("key", "value"):
        config.define(f"{half}.subject.name.strategy", ConfigType.STRING, "TopicNameStrategy",
                      Importance.MEDIUM, f"How the subject of a {half} is named.",
                      validator=_known_strategy)  # fmt: skip
    return _credentials(config)


Flags = Mapping[str, tuple[str, str]]
"""A language's boolean settings: the field of its settings class, and the documentation."""


def define_flags(config: ConfigDef, flags: Flags, defaults: Mapping[str, bool]) -> ConfigDef:
    for name, (field, doc) in flags.items():
        config.define(name, ConfigType.BOOLEAN, defaults[field], Importance.MEDIUM, doc)
    return config


def flags_of(settings: Mapping[str, Any], flags: Flags) -> dict[str, bool]:
    return {field: settings[name] for name, (field, _) in flags.items()}


def _credentials(config: ConfigDef) -> ConfigDef:
    return (
        config.define("basic.auth.credentials.source", ConfigType.STRING, "URL", Importance.MEDIUM,
                      "URL, USER_INFO or SASL_INHERIT.")
        .define("basic.auth.user.info", ConfigType.PASSWORD, "", Importance.MEDIUM,
                "user:password, for USER_INFO.")
        .define("bearer.auth.credentials.source", ConfigType.STRING, "", Importance.MEDIUM,
                "STATIC_TOKEN or OAUTHBEARER.")
        .define("bearer.auth.token", ConfigType.PASSWORD, "", Importance.MEDIUM,
                "The token, for STATIC_TOKEN.")
        .define("bearer.auth.client.secret", ConfigType.PASSWORD, "", Importance.MEDIUM,
                "The client secret, for OAUTHBEARER.")
        .define("schema.registry.ssl.truststore.password", ConfigType.PASSWORD, "",
                Importance.LOW, "The password of the truststore.")
        .define("schema.registry.ssl.keystore.password", ConfigType.PASSWORD, "",
                Importance.LOW, "The password of the keystore.")
        .define("schema.registry.ssl.key.password", ConfigType.PASSWORD, "",
                Importance.LOW, "The password of the key in the keystore.")
    )  # fmt: skip


def _known_strategy(name: str, value: object) -> None:
    try:
        strategy_of(value)
    except ValueError as error:
        raise ConfigException.of(name, value, str(error)) from None
